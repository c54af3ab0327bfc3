/**
 * `count` jobs on every host that matches, or on as many as there may be. A cordoned host keeps those it has and gets no
 * others; on one that drains they go last.
 */
import { attributesOf, failedConstraint, isOpen } from '../feasible.ts';
import type { Workload } from '../cell.ts';
import { isLeftToOmni } from '../drain.ts';
import { reconcileOmni } from '../omni-slots.ts';
import { makePlan } from '../place.ts';
import { baseInputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const omniScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const meant = new Set<string>();
    const unsuited = new Set<string>();
    // Also one that ended: its volumes are there.
    const hasJob = new Set(cell.jobsOf(workload.id).map(({ hostId }) => hostId));
    for (const [hostId, { value: host }] of cell.hosts) {
      const settings = cell.settings.get(hostId);
      const isDraining = settings?.drain !== undefined;
      if (cell.isUnsure(hostId)) {
        if (hasJob.has(hostId) && (!isDraining || !isLeftToOmni(hostId, cell))) meant.add(hostId);
        continue;
      }
      if (failedConstraint(hostId, attributesOf(host, settings), workload.constraints) !== undefined) {
        if (!isDraining) unsuited.add(hostId);
      } else if (!isDraining || !isLeftToOmni(hostId, cell)) meant.add(hostId);
    }
    // A host that is away for a moment is still meant: its job is not stopped for that.
    for (const hostId of hasJob) {
      if (!cell.hosts.has(hostId) && !context.lostHosts.has(hostId)) meant.add(hostId);
    }
    const isOpenHost = (hostId: string) => {
      const host = cell.hosts.get(hostId)?.value;
      return host !== undefined && isOpen(host, cell.settings.get(hostId));
    };
    const decision = reconcileOmni(workload, baseInputOf(workload.id, cell, context), {
      meant: chosen([...meant].sort(), workload, {
        hasJob,
        isOpen: isOpenHost,
      }),
      unsuited,
      isOpen: isOpenHost,
    });
    return makePlan({ evaluation, workload, decision, policy: 'pack' }, cell, context);
  },
};

/** Of the hosts that are meant as many as there may be: first those that have a job, then those that may have one. */
function chosen(
  meant: readonly string[],
  { maxHosts }: Workload,
  { hasJob, isOpen }: { hasJob: ReadonlySet<string>; isOpen: (hostId: string) => boolean },
): string[] {
  if (maxHosts === undefined || meant.length <= maxHosts) return [...meant];
  const rank = (hostId: string) => (hasJob.has(hostId) ? 0 : isOpen(hostId) ? 1 : 2);
  return meant
    .toSorted((a, b) => rank(a) - rank(b))
    .slice(0, maxHosts)
    .sort();
}
