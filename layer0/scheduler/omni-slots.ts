/** Which hosts need a job of an omni workload, and which have one too many? */
import type { Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import { isRunning, leastUseful, nothing, sortJobs } from './reconcile.ts';
import type { Decision, ReconcileInput, Slot } from './reconcile.ts';
import { isFailing, judgeReschedule, withVerdict } from './reschedule.ts';
import { isExclusive } from './slots.ts';

export type OmniHosts = Readonly<{
  /** Hosts that have jobs or are to have them. */
  meant: readonly string[];
  /** Hosts that do not meet the constraints, and have nothing else against them. */
  unsuited: ReadonlySet<string>;
  /** Whether new jobs may go there. */
  isOpen: (hostId: string) => boolean;
}>;

/**
 * `count` jobs per host that is meant. A new version starts beside the old one of each host, everywhere at once, unless
 * two may not run side by side: then one host after the other. Where a new version may not be the old one goes when a new
 * one runs somewhere: there may be no host for it.
 */
export function reconcileOmni(workload: Workload, input: ReconcileInput, hosts: OmniHosts): Decision {
  const { lostHosts } = input;
  const { active, ended, stopping } = sortJobs(input.placed, lostHosts);
  if (workload.count === 0) return { ...nothing, stop: active, release: ended };
  const here = { active: byHost(active), stopping: byHost(stopping), ended: byHost(ended) };
  const meant = new Set(hosts.meant);
  const isRenewed = active.some((one) => one.version === workload.version && isRunning(one));
  const isKept = ({ hostId, version }: PlacedJob) =>
    meant.has(hostId) || (!isRenewed && version !== workload.version && hosts.unsuited.has(hostId));
  const stop: PlacedJob[] = active.filter((one) => !isKept(one));
  const verdict = ended.some((one) => isFailing(one, workload, lostHosts))
    ? judgeReschedule(workload, input)
    : undefined;
  const isHeld = (one: PlacedJob) =>
    verdict?.kind !== 'now' && meant.has(one.hostId) && isFailing(one, workload, lostHosts);
  const held = ended.filter(isHeld);
  const place: Slot[] = [];
  const freeIndex = freeIndexes(new Set([...active, ...stopping, ...held].map(({ index }) => index)));
  /** Slots that have a job of the version already, or get one. */
  const renewed = new Set(active.filter((one) => one.version === workload.version).map(({ index }) => index));
  const outdated: PlacedJob[] = [];
  let unsettled = 0;

  for (const hostId of hosts.meant) {
    const leaving = here.stopping.get(hostId)?.length ?? 0;
    const endedHere = here.ended.get(hostId) ?? [];
    const heldHere = endedHere.filter(isHeld).length;
    const current = (here.active.get(hostId) ?? []).filter((one) => one.version === workload.version);
    const old = (here.active.get(hostId) ?? []).filter((one) => one.version !== workload.version);
    const running = current.filter(isRunning);
    stop.push(...leastUseful(current).slice(0, Math.max(0, current.length - workload.count)));
    const why = endedHere.some((one) => isFailing(one, workload, lostHosts)) ? 'failed' : 'missing';
    let wanted = Math.max(0, workload.count - current.length - heldHere);
    if (isExclusive(workload)) {
      for (const one of old) {
        if (isRunning(one)) outdated.push(one);
        else stop.push(one);
      }
      wanted = Math.max(0, wanted - old.length - leaving);
      const isRefilled = wanted > 0 && endedHere.length > 0;
      if (isRefilled || leaving > 0 || heldHere > 0 || running.length < current.length) unsettled += 1;
    } else {
      stop.push(...leastUseful(old).slice(0, Math.max(0, old.length - Math.max(0, workload.count - running.length))));
    }
    if (wanted === 0 || !hosts.isOpen(hostId)) continue;
    const replaced = isExclusive(workload)
      ? []
      : [...new Set(old.map(({ index }) => index))].filter((index) => !renewed.has(index));
    for (let n = 0; n < wanted; n += 1) {
      const index = replaced[n] ?? freeIndex();
      renewed.add(index);
      place.push({ index, why: replaced[n] === undefined ? why : 'destructive', hostId });
    }
  }
  stop.push(...outdated.slice(0, Math.max(0, (workload.maxParallel ?? 1) - unsettled)));
  const release = held.length === 0 ? ended : ended.filter((one) => !held.includes(one));
  return withVerdict({ place, stop, release }, held.length > 0 ? verdict : undefined, undefined);
}

/** From the lowest up, each once. */
function freeIndexes(taken: ReadonlySet<number>): () => number {
  let next = -1;
  return () => {
    do next += 1;
    while (taken.has(next));
    return next;
  };
}

function byHost(jobs: readonly PlacedJob[]): ReadonlyMap<string, PlacedJob[]> {
  return Map.groupBy(jobs, ({ hostId }) => hostId);
}
