/** What do workloads need whose jobs run once and end: single runs, and gangs of them? */
import type { Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import { nextDeadline } from './drain.ts';
import { isRunning, lowestFree, sortJobs } from './reconcile.ts';
import type { Decision, ReconcileInput, Slot } from './reconcile.ts';
import { isFailing, judgeReschedule, withVerdict } from './reschedule.ts';

/** Whether whoever lets one of its jobs go counts it down, or it would be placed once more. */
export function isCounted({ kind }: Pick<Workload, 'kind'>): boolean {
  return kind === 'ephemeral';
}

/** What the count becomes as so many of the jobs are let go. What there is beyond the count goes first. */
export function countAfter({ count }: Pick<Workload, 'count'>, placed: number, released: number): number {
  return Math.min(count, Math.max(count, placed) - released);
}

/**
 * Each run is placed once, whatever becomes of it; a lost host loses it. `count` is how many have not ended yet: it goes
 * down as they are let go. Slots are filled from the highest index down, so those still to be placed are always the lowest.
 */
export function reconcileEphemeral(workload: Workload, input: ReconcileInput): Decision {
  const waiting = Math.max(0, workload.count - input.placed.length);
  const place = Array.from({ length: waiting }, (_, at): Slot => ({ index: waiting - 1 - at, why: 'missing' }));
  if (input.placed.length === 0) return { place, stop: [], release: [] };
  const { active, ended } = sortJobs(input.placed, input.lostHosts);
  if (workload.count === 0) return { place: [], stop: active, release: ended };
  const due = active.filter(({ hostId }) => input.departures.get(hostId)?.isDue === true);
  const stop = [...new Set([...due, ...active.slice(0, Math.max(0, active.length - workload.count))])];
  const decision: Decision = {
    place,
    stop,
    release: ended,
    ...(ended.length > 0 ? { remaining: countAfter(workload, input.placed.length, ended.length) } : {}),
  };
  return withVerdict(decision, undefined, active.length > due.length ? nextDeadline(input.departures) : undefined);
}

/**
 * A gang runs whole or not at all: what is missing is placed all at once. A member that ended well has done its part; one
 * that failed or was lost is replaced. A new version starts when nothing of the old one is left. When all have done
 * their part the count becomes 0.
 */
export function reconcileGang(workload: Workload, input: ReconcileInput): Decision {
  const { lostHosts, departures } = input;
  const { active, stopping, ended } = sortJobs(input.placed, lostHosts);
  const { count, version } = workload;
  if (count === 0) return { place: [], stop: active, release: ended };
  const isDone = (one: PlacedJob) => one.status?.state === 'done' && one.desired === 'run' && one.version === version;
  const done = ended.filter((one) => isDone(one) && one.index < count);
  const stop = active.filter(
    (one) => one.version !== version || one.index >= count || departures.get(one.hostId)?.isDue === true,
  );
  if (done.length === count) return { place: [], stop, release: ended, remaining: 0 };

  const failing = ended.filter((one) => isFailing(one, workload, lostHosts) && !isDone(one));
  const verdict = failing.length === 0 ? undefined : judgeReschedule(workload, input);
  const isHeld = verdict !== undefined && verdict.kind !== 'now';
  const kept = new Set(isHeld ? [...done, ...failing] : done);
  const isChanging = stop.length > 0 || stopping.length > 0;
  const taken = new Set([...active, ...kept].map(({ index }) => index));
  const lost = new Set(ended.filter((one) => lostHosts.has(one.hostId)).map(({ index }) => index));
  const free = isHeld || isChanging ? [] : lowestFree(taken, count).filter((index) => index < count);
  const place = free.map((index): Slot => ({ index, why: lost.has(index) ? 'lost' : 'missing' }));
  const release = ended.filter((one) => !kept.has(one));
  const hasRunning = active.some(isRunning);
  return withVerdict(
    { place, stop, release },
    isHeld ? verdict : undefined,
    hasRunning ? nextDeadline(departures) : undefined,
  );
}
