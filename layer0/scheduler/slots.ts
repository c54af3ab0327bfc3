/** Which slots of a service need a job, and which jobs are too many? */
import type { Workload } from './cell.ts';
import { isRunning, nothing, sortJobs, withBackoff } from './reconcile.ts';
import type { Decision, ReconcileInput, Slot } from './reconcile.ts';
import type { PlacedJob } from './snapshot.ts';

export function reconcileService(workload: Workload, input: ReconcileInput): Decision {
  const decision = isExclusive(workload) ? stopFirst(workload, input) : startFirst(workload, input);
  return withBackoff(decision, workload, input);
}

/** Whether a slot may have one job only: two would share a volume. */
function isExclusive(workload: Workload): boolean {
  return workload.update === 'stop_first' || workload.template.volumes.length > 0;
}

/** How many jobs of a new version may be on their way at once: small services change in one step. */
function surgeOf(count: number): number {
  return Math.max(4, Math.ceil(count / 4));
}

/**
 * New jobs first; an old one is told to stop only when a new one runs in its place, so the running ones never fall below
 * the count. Indexes are taken from the lowest free one; only those of the current version are in the way.
 */
function startFirst(workload: Workload, input: ReconcileInput): Decision {
  const { active, stopping, ended } = sortJobs(input.placed, input.lostHosts);
  const { count, version } = workload;
  const current = active.filter(({ job }) => job.version === version);
  const old = active.filter(({ job }) => job.version !== version);
  const running = current.filter(isRunning);

  const stop = [
    ...leastUseful(current).slice(0, Math.max(0, current.length - count)),
    ...leastUseful(old).slice(0, Math.max(0, old.length - Math.max(0, count - running.length))),
  ];
  const missing = Math.max(0, count - current.length);
  const underway = current.length - running.length;
  const room = old.length === 0 ? missing : Math.max(0, surgeOf(count) - underway);
  const taken = new Set(
    [...current, ...stopping].filter(({ job }) => job.version === version).map(({ job }) => job.index),
  );
  const place = lowestFree(taken, Math.min(missing, room));
  return { place, stop, release: ended };
}

/** One slot after the other is emptied and filled again. Slots are exactly 0 to count - 1. */
function stopFirst(workload: Workload, input: ReconcileInput): Decision {
  const { active, stopping, ended } = sortJobs(input.placed, input.lostHosts);
  const { count, version } = workload;
  const stop: PlacedJob[] = active.filter(({ job }) => job.index >= count);
  const place: Slot[] = [];
  const outdated: PlacedJob[] = [];
  let unsettled = 0;
  for (let index = 0; index < count; index += 1) {
    const here = active.filter(({ job }) => job.index === index);
    const leaving = stopping.filter(({ job }) => job.index === index);
    const [keep, ...spare] = leastUseful(here).toReversed();
    stop.push(...spare);
    if (keep === undefined && leaving.length === 0) {
      const before = ended.findLast(({ job }) => job.index === index);
      const isThere = before !== undefined && !input.lostHosts.has(before.hostId);
      place.push(isThere ? { index, preferHostId: before.hostId } : { index });
      // A slot that has been empty for longer has no room anywhere: it must not hold the others up.
      if (before !== undefined) unsettled += 1;
    }
    if (keep !== undefined && keep.job.version !== version) {
      // One that serves nobody can go at once: a broken version must not stand in the way of the one that mends it.
      if (isRunning(keep)) outdated.push(keep);
      else stop.push(keep);
    }
    if (leaving.length > 0 || (keep !== undefined && !isRunning(keep))) unsettled += 1;
  }
  if (unsettled === 0) stop.push(...outdated.slice(0, 1));
  return { place, stop, release: ended };
}

/** One job per host that is meant, its slot the host's. */
export function reconcileOmni(
  workload: Workload,
  input: ReconcileInput,
  hosts: { meant: readonly string[]; isOpen: (hostId: string) => boolean },
): Decision {
  const { active, ended, stopping } = sortJobs(input.placed, input.lostHosts);
  if (workload.count === 0) return { ...nothing, stop: active, release: ended };
  const meant = new Set(hosts.meant);
  const stop: PlacedJob[] = active.filter(({ hostId }) => !meant.has(hostId));
  const place: Slot[] = [];
  const taken = new Set([...active, ...stopping].map(({ job }) => job.index));
  const outdated: PlacedJob[] = [];
  let unsettled = 0;
  for (const hostId of hosts.meant) {
    const here = active.filter((one) => one.hostId === hostId);
    const isLeaving = stopping.some((one) => one.hostId === hostId);
    const current = here.filter(({ job }) => job.version === workload.version);
    const old = here.filter(({ job }) => job.version !== workload.version);
    const running = current.filter(isRunning);
    stop.push(...leastUseful(current).slice(0, Math.max(0, current.length - 1)));
    if (isExclusive(workload)) {
      const [keep] = old;
      if (keep !== undefined && isRunning(keep)) outdated.push(keep);
      else stop.push(...old);
      const isEmpty = here.length === 0 && !isLeaving;
      if (isEmpty && hosts.isOpen(hostId)) place.push(slotOn(hostId, taken));
      const wasHere = isEmpty && ended.some((one) => one.hostId === hostId);
      if (wasHere || isLeaving || (old.length === 0 && current.length > running.length)) unsettled += 1;
    } else {
      if (running.length > 0) stop.push(...old);
      const [replaced] = old;
      if (current.length === 0 && hosts.isOpen(hostId)) {
        place.push(replaced === undefined ? slotOn(hostId, taken) : { index: replaced.job.index, hostId });
      }
    }
  }
  if (unsettled === 0) stop.push(...outdated.slice(0, 1));
  return withBackoff({ place, stop, release: ended }, workload, input);
}

function slotOn(hostId: string, taken: Set<number>): Slot {
  const [slot] = lowestFree(taken, 1);
  const index = slot?.index ?? 0;
  taken.add(index);
  return { index, hostId };
}

/** Those that do not run first, then the highest index, then the newest. */
function leastUseful(jobs: readonly PlacedJob[]): PlacedJob[] {
  return jobs.toSorted(
    (a, b) =>
      Number(isRunning(a)) - Number(isRunning(b)) ||
      b.job.index - a.job.index ||
      b.job.createdAt - a.job.createdAt ||
      (a.job.id < b.job.id ? 1 : -1),
  );
}

function lowestFree(taken: ReadonlySet<number>, howMany: number): Slot[] {
  const slots: Slot[] = [];
  for (let index = 0; slots.length < howMany; index += 1) {
    if (!taken.has(index)) slots.push({ index });
  }
  return slots;
}
