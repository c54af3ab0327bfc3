/** The same for slots that may have one job only: one after the other is emptied and filled again. */
import type { Demand, Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import { nextDeadline } from './drain.ts';
import { isRunning, leastUseful, sortJobs } from './reconcile.ts';
import type { Decision, ReconcileInput, Slot } from './reconcile.ts';
import { isFailing, judgeReschedule, withVerdict } from './reschedule.ts';

/**
 * Slots are exactly 0 to count - 1. A slot with volumes goes back to the host where it was: its last job stays assigned there, and
 * says so, until the next one is. One that the workload had before it had fewer goes back there too if that host takes it, and
 * else begins elsewhere, as a new one does. What runs is not stopped for what cannot begin: with its data on a host that does not
 * meet the constraints any more, or drains, and where nothing that does has room. What goes last is emptied after all others.
 */
export function reconcileExclusive(workload: Workload, input: ReconcileInput): Decision {
  const { departures, lostHosts } = input;
  const { active, stopping, ended } = sortJobs(input.placed, lostHosts);
  const { count, version } = workload;
  const slots = { active: bySlot(active), stopping: bySlot(stopping), ended: bySlot(ended) };
  const verdict = ended.some((one) => isFailing(one, workload, lostHosts))
    ? judgeReschedule(workload, input)
    : undefined;

  const stop = active.filter(({ index }) => index >= count);
  const release = new Set(ended);
  const place: Slot[] = [];
  const held = new Map<string, number>();
  const hold = (obstacle: string) => held.set(obstacle, (held.get(obstacle) ?? 0) + 1);
  const outdated: PlacedJob[] = [];
  const moving: PlacedJob[] = [];
  let unsettled = 0;
  let isWaiting = false;
  for (let index = 0; index < count; index += 1) {
    const leaving = slots.stopping.get(index)?.length ?? 0;
    const [keep, ...spare] = leastUseful(slots.active.get(index) ?? []).toReversed();
    stop.push(...spare);
    if (keep === undefined && leaving === 0) {
      const before = newest(slots.ended.get(index) ?? []);
      const owner = before !== undefined && sharesVolume(before.demand, workload.demand) ? before : undefined;
      const obstacle = owner === undefined ? undefined : volumeObstacle(owner, input);
      const pinned = obstacle !== undefined && workload.demand.canLeaveVolumes === true ? undefined : owner;
      if (pinned !== undefined && obstacle !== undefined) {
        // It must not hold the others up.
        release.delete(pinned);
        hold(obstacle);
      } else if (before !== undefined && verdict?.kind !== 'now' && isFailing(before, workload, lostHosts)) {
        release.delete(before);
        isWaiting = true;
        unsettled += 1;
      } else {
        place.push(slotAfter(index, before, pinned, workload, input));
        // A slot that has been empty for longer has no room anywhere: it must not hold the others up either.
        if (before !== undefined) unsettled += 1;
      }
    }
    const departure = keep === undefined ? undefined : departures.get(keep.hostId);
    const obstacle = keep === undefined || departure?.isDue === true ? undefined : obstacleTo(keep, workload, input);
    if (obstacle !== undefined) hold(obstacle);
    else if (keep !== undefined && departure?.isDue === true) stop.push(keep);
    else if (keep !== undefined && keep.version !== version) {
      // One that serves nobody can go at once: a broken version must not stand in the way of the one that mends it.
      if (isRunning(keep)) outdated.push(keep);
      else stop.push(keep);
    } else if (keep !== undefined && departure !== undefined && canMove(keep, workload)) {
      if (isRunning(keep)) moving.push(keep);
      else stop.push(keep);
    }
    if (leaving > 0 || (keep !== undefined && !isRunning(keep))) unsettled += 1;
  }
  const updated = lastLast(outdated).slice(0, Math.max(0, (workload.maxParallel ?? 1) - unsettled));
  const moveParallel = moving.reduce((most, { hostId }) => Math.max(most, departures.get(hostId)?.maxParallel ?? 0), 0);
  stop.push(...updated, ...lastLast(moving).slice(0, Math.max(0, moveParallel - unsettled - updated.length)));
  const decision: Decision = { place, stop, release: [...release], ...(held.size === 0 ? {} : { held }) };
  return withVerdict(
    decision,
    isWaiting ? verdict : undefined,
    active.length > stop.length ? nextDeadline(departures) : undefined,
  );
}

function lastLast(jobs: readonly PlacedJob[]): PlacedJob[] {
  return jobs.toSorted((a, b) => Number(a.status?.goesLast ?? false) - Number(b.status?.goesLast ?? false));
}

function slotAfter(
  index: number,
  before: PlacedJob | undefined,
  pinned: PlacedJob | undefined,
  workload: Workload,
  { lostHosts, homeOf }: ReconcileInput,
): Slot {
  if (pinned !== undefined) {
    const why = isFailing(pinned, workload, lostHosts)
      ? 'failed'
      : pinned.version === workload.version
        ? 'missing'
        : 'destructive';
    return { index, why, hostId: pinned.hostId, after: pinned };
  }
  if (before === undefined) {
    // It was there before the workload had fewer jobs.
    const homeId = workload.demand.volumes.length === 0 ? undefined : homeOf(index);
    return { index, why: 'missing', ...(homeId === undefined ? {} : { homeId }) };
  }
  if (lostHosts.has(before.hostId)) return { index, why: 'lost' };
  if (isFailing(before, workload, lostHosts)) return { index, why: 'failed' };
  return { index, why: before.version === workload.version ? 'migrate' : 'destructive' };
}

/** Why nothing could take the place of a job that runs. */
function obstacleTo(keep: PlacedJob, workload: Workload, input: ReconcileInput): string | undefined {
  if (!canMove(keep, workload)) return keep.version === workload.version ? undefined : volumeObstacle(keep, input);
  const departure = input.departures.get(keep.hostId);
  if (departure?.why !== 'unsuited' || input.hasRoomFor(keep)) return undefined;
  return `it runs on ${keep.hostId}, which does not match (${departure.failed}), and no host that does has room`;
}

function canMove(job: PlacedJob, { demand }: Workload): boolean {
  return demand.canLeaveVolumes === true || !sharesVolume(job.demand, demand);
}

/** Why the slot cannot go back to its data, which is not given up for a new start elsewhere unless it is replaceable. */
function volumeObstacle({ hostId }: PlacedJob, { isThere, departures }: ReconcileInput): string | undefined {
  if (!isThere(hostId)) return `volume data is on ${hostId}, which is away`;
  const departure = departures.get(hostId);
  if (departure?.why === 'draining') return `volume data is on ${hostId}, which is draining`;
  if (departure?.why === 'unsuited') return `volume data is on ${hostId}, which does not match: ${departure.failed}`;
  return undefined;
}

function sharesVolume(before: Demand, wanted: Demand): boolean {
  return before.volumes.some((name) => wanted.volumes.includes(name));
}

function newest(jobs: readonly PlacedJob[]): PlacedJob | undefined {
  return jobs.toSorted((a, b) => a.createdAt - b.createdAt).at(-1);
}

function bySlot(jobs: readonly PlacedJob[]): ReadonlyMap<number, PlacedJob[]> {
  return Map.groupBy(jobs, ({ index }) => index);
}
