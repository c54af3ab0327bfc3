/**
 * Which jobs of a service would be better off elsewhere? Asked for by an evaluation with the cause `rebalance`, never of
 * itself.
 */
import type { Workload } from './cell.ts';
import type { Cell, PlacedJob } from './cell-view.ts';
import { Placement } from './placement/request.ts';
import type { PlanContext } from './plan.ts';
import { isRunning } from './reconcile.ts';
import type { Decision, Slot } from './reconcile.ts';
import { isExclusive, parallelOf } from './slots.ts';

/** A host has to be emptier by this part of it, after the move, for a move that does not better the spread. */
const fillMargin = 0.1;

type Standing = Readonly<{ index: number; counts: readonly number[]; fill: number }>;

/**
 * Moves for an even spread, then for emptier hosts: at most as many as an update replaces at a time, start first: each job
 * is placed a second time, and the older one stops when the newer runs. A workload that is not at rest, or whose slots may
 * have one job only, stays as it is. What is moved twice would be back where it was: each move strictly improves.
 */
export function rebalance(workload: Workload, decision: Decision, cell: Cell, context: PlanContext): Decision {
  const jobs = cell.jobsOf(workload.id);
  if (isExclusive(workload) || !isAtRest(workload, jobs, decision)) return decision;
  const { table } = context;
  const same = new Map<number, number>();
  for (const { hostId } of jobs) count(same, table.indexOf(hostId), 1);
  const request = { policy: 'spread' as const, ...workload, same, random: context.random };
  const planned = new Map<number, number>();
  const place: Slot[] = [];
  const left = [...jobs];
  while (place.length < parallelOf(workload)) {
    const move = bestMove(left, new Placement(table, request), planned);
    if (move === undefined) break;
    left.splice(left.indexOf(move.job), 1);
    count(same, table.indexOf(move.job.hostId), -1);
    count(same, move.to, 1);
    count(planned, move.to, 1);
    const hostId = table.idOf(move.to);
    if (hostId !== undefined) place.push({ index: move.job.index, why: 'migrate', hostId });
  }
  return { ...decision, place };
}

function isAtRest(
  { version, count }: Workload,
  jobs: readonly PlacedJob[],
  { place, stop, release }: Decision,
): boolean {
  if (place.length + stop.length + release.length > 0 || jobs.length !== count) return false;
  return jobs.every((job) => job.version === version && job.desired === 'run' && isRunning(job));
}

/** The job that stands worst, to where it stands best. */
function bestMove(
  jobs: readonly PlacedJob[],
  checks: Placement,
  planned: ReadonlyMap<number, number>,
): { job: PlacedJob; to: number } | undefined {
  const { table } = checks;
  const byHost = Map.groupBy(jobs, ({ hostId }) => hostId);
  const sources = [...byHost].flatMap(([hostId, [job]]) => {
    const index = table.indexOf(hostId);
    return index === undefined || job === undefined
      ? []
      : [{ job, standing: standingOn(index, checks, planned, index) }];
  });
  sources.sort((a, b) => compare(b.standing, a.standing) || (a.job.id < b.job.id ? -1 : 1));
  for (const { job, standing } of sources) {
    let best: Standing | undefined;
    for (let index = 0; index < table.end; index += 1) {
      if (table.idOf(index) === undefined || checks.obstacle(index) !== undefined) continue;
      if (table.roomFor(index, checks.request.demand, (planned.get(index) ?? 0) + 1) <= (planned.get(index) ?? 0))
        continue;
      const there = standingOn(index, checks, planned, standing.index);
      if (isBetter(there, standing) && (best === undefined || compare(there, best) < 0)) best = there;
    }
    if (best !== undefined) return { job, to: best.index };
  }
  return undefined;
}

/** Other jobs of the workload by each spread attribute's value, then by host, without the one that `from` would lose. */
function standingOn(
  index: number,
  { table, request }: Placement,
  planned: ReadonlyMap<number, number>,
  from: number,
): Standing {
  const counts: number[] = [];
  const attributes = request.spread ?? [];
  for (let depth = 1; depth <= attributes.length; depth += 1) {
    const path = attributes.slice(0, depth);
    const isAlike = (other: number) => path.every((name) => table.valueOf(other, name) === table.valueOf(index, name));
    let alike = isAlike(from) ? -1 : 0;
    for (const [other, jobs] of request.same ?? []) if (isAlike(other)) alike += jobs;
    counts.push(alike);
  }
  counts.push((request.same?.get(index) ?? 0) - (index === from ? 1 : 0));
  const { memoryCapacity, memoryFree } = table.columns;
  const extra = (planned.get(index) ?? 0) + (index === from ? 0 : 1);
  const memory = (memoryFree[index] ?? 0) - extra * request.demand.memoryBytes;
  return { index, counts, fill: 1 - memory / Math.max(1, memoryCapacity[index] ?? 0) };
}

function isBetter(there: Standing, here: Standing): boolean {
  const bySpread = compareCounts(there.counts, here.counts);
  return bySpread < 0 || (bySpread === 0 && there.fill + fillMargin < here.fill);
}

function compare(a: Standing, b: Standing): number {
  return compareCounts(a.counts, b.counts) || a.fill - b.fill;
}

function compareCounts(a: readonly number[], b: readonly number[]): number {
  for (const [at, one] of a.entries()) {
    const difference = one - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function count(counts: Map<number, number>, index: number | undefined, by: number): void {
  if (index !== undefined) counts.set(index, (counts.get(index) ?? 0) + by);
}
