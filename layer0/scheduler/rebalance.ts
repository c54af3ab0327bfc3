/**
 * Which jobs of a service would be better off elsewhere? Asked for by an evaluation with the cause `rebalance`, never of
 * itself.
 */
import type { Workload } from './cell.ts';
import type { Cell, PlacedJob } from './cell-view.ts';
import { departuresOf } from './drain.ts';
import type { PlanContext } from './plan.ts';
import { isRunning } from './reconcile.ts';
import type { Decision, Slot } from './reconcile.ts';
import { isExclusive, isStarting, parallelOf } from './slots.ts';
import { Standings } from './standings.ts';

/** Of one plan: an agent has more to do meanwhile, its lease among it. The rest is another's, right after it. */
const maxMoves = 64;

/**
 * Moves for an even spread, then for emptier hosts: at most as many are on their way as an update replaces at a time, start first:
 * each job is placed a second time, and the older one stops when the newer runs. A workload that is not at rest but for
 * such moves, that has to leave a host, or whose slots may have one job only, stays as it is. What is moved twice would be back
 * where it was: each move strictly improves.
 */
export function rebalance(workload: Workload, decision: Decision, cell: Cell, context: PlanContext): Decision {
  if (isExclusive(workload)) return decision;
  const placed = cell.jobsOf(workload.id);
  // A drain has jobs of its own on their way, as many as its operator allows.
  if (departuresOf(workload, placed, cell, context.now).size > 0) return decision;
  const jobs = jobsAtRest(workload, placed, decision);
  if (jobs === undefined) return decision;
  const room = parallelOf(workload) - (jobs.all.length - jobs.movable.length);
  const standings = new Standings(workload, jobs.all, jobs.movable, context);
  const place: Slot[] = [];
  while (place.length < Math.min(room, maxMoves)) {
    const move = standings.move();
    if (move === undefined) return { ...decision, place };
    place.push({ index: move.job.index, why: 'migrate', hostId: move.hostId, newerThan: move.job.createdAt });
  }
  // Moves that are taken back as they are made would be made again, without an end.
  const isInVain = decision.stop.some(isStarting);
  return room > maxMoves && !isInVain ? { ...decision, place, goesOn: true } : { ...decision, place };
}

/** One for each slot, of two the one that stays; undefined where anything but moves is under way or should be. */
function jobsAtRest(
  { version, count }: Workload,
  placed: readonly PlacedJob[],
  { place, stop, release }: Decision,
): { all: readonly PlacedJob[]; movable: readonly PlacedJob[] } | undefined {
  const slots = Map.groupBy(placed, ({ index }) => index);
  if (place.length > 0 || slots.size !== count) return undefined;
  const leaving = new Set([...stop, ...release]);
  const all: PlacedJob[] = [];
  const movable: PlacedJob[] = [];
  for (const jobs of slots.values()) {
    const [job, ...older] = jobs.toSorted((a, b) => b.createdAt - a.createdAt);
    if (job === undefined || jobs.some((one) => one.version !== version)) return undefined;
    if (job.desired === 'stop' || leaving.has(job) || (older.length === 0 && !isRunning(job))) return undefined;
    all.push(job);
    if (older.length === 0) movable.push(job);
  }
  return { all, movable };
}
