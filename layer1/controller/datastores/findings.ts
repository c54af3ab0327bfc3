/** What is wrong with datastores themselves? */
import { appliances } from '@flynn/appliances/appliances';
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { statusesOfApp } from '../cell-view.ts';
import { upJobs } from '../deployments/progress.ts';
import type { Deps } from '../deps.ts';
import { appType, formationType } from '../resources.ts';
import { roleService } from './datastore.ts';

export function datastoreCheck(deps: Pick<Deps, 'resources' | 'cell' | 'isServed'>): Check {
  const { resources, cell } = deps;
  return {
    name: 'datastores',
    find: async (signal) => {
      const all = await resources.list(appType, { signal, where: ({ spec }) => spec.datastore !== undefined });
      const found = all.map(async ({ id, spec, status, deletingSince }): Promise<Found[]> => {
        const appliance = appliances.get(spec.datastore?.appliance ?? '');
        const { releaseId } = status;
        if (appliance === undefined || releaseId === undefined || deletingSince !== undefined) return [];
        const formation = await resources.find(formationType, releaseId, { signal });
        const wanted = formation?.spec.processes[appliance.name] ?? 0;
        // Nobody wants it to be there.
        if (wanted === 0) return [];
        const up = upJobs(statusesOfApp(cell, id), releaseId, appliance.name).length;
        const isServed = await deps.isServed(roleService(spec.name, appliance.leadingRole), signal);
        return memberFindings({ name: spec.name, wanted, up, isServed });
      });
      return (await Promise.all(found)).flat();
    },
  };
}

type Facts = Readonly<{ name: string; wanted: number; up: number; isServed: boolean }>;

/** Pure. */
export function memberFindings({ name, wanted, up, isServed }: Facts): Found[] {
  const subject = `database ${name}`;
  const look = `flynn pg -a ${name} tells how its members are, flynn ps -a ${name} where they run`;
  if (!isServed) {
    return [
      {
        severity: 'critical',
        subject,
        what: `it has no primary: ${up} of ${wanted} members are up`,
        why: 'nothing is read from it or written to it; a copy that may lack what was committed last does not take over by itself',
        remedy: `${look}; bring the host back that is away; else flynn pg failover -a ${name}, which may lose what was committed last`,
      },
    ];
  }
  if (up >= wanted) return [];
  const left =
    up < 2
      ? 'what is committed is on one disk alone, and nobody takes over when that goes'
      : 'one copy less is there to take over';
  return [
    {
      severity: 'warning',
      subject,
      what: `${up} of ${wanted} members are up`,
      why: left,
      remedy: `${look}; a host that is gone for good: flynn host remove HOST --give-up-volumes, and the member is copied anew elsewhere`,
    },
  ];
}
