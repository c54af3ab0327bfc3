/** One job on every host that matches. A cordoned host keeps the one it has and gets no other. */
import { matchesConstraints } from '../feasible.ts';
import { makePlan } from '../plan.ts';
import { rankService } from '../rank.ts';
import { reconcileOmni } from '../slots.ts';
import { inputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const omniScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const hosts = [...cell.hosts.values()].map(({ value }) => value);
    const meant = hosts.filter((host) => matchesConstraints(host, workload) === undefined).map(({ id }) => id);
    // A host that is away for a moment is still meant: its job is not stopped for that.
    const away = cell.jobsOf(workload.id).map(({ hostId }) => hostId);
    const waitedFor = away.filter((hostId) => !cell.hosts.has(hostId) && !context.lostHosts.has(hostId));
    const decision = reconcileOmni(workload, inputOf(workload.id, cell, context), {
      meant: [...new Set([...meant, ...waitedFor])].sort(),
      isOpen: (hostId) => cell.hosts.get(hostId)?.value.cordoned === false,
    });
    return makePlan({ evaluation, workload, decision, rank: rankService }, cell, context);
  },
};
