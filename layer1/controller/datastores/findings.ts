/** What is wrong with datastores themselves? */
import { appliances } from '@flynn/appliances/appliances';
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { upJobs } from '../deployments/progress.ts';
import type { Deps } from '../deps.ts';
import { resourceType } from '../providers/types.ts';
import type { ProvidedResource } from '../providers/types.ts';
import { appType, formationType } from '../resources.ts';
import { roleService } from './datastore.ts';

/** Deployments take their time. */
const rotationMs = 15 * 60_000;

export function datastoreCheck(deps: Pick<Deps, 'resources' | 'cell' | 'isServed' | 'now'>): Check {
  const { resources, cell } = deps;
  return {
    name: 'datastores',
    find: async (signal) => {
      const all = await resources.list(appType, { signal, where: ({ spec }) => spec.datastore !== undefined });
      const found = all.map(async ({ id, spec, status, deletingSince }): Promise<Found[]> => {
        const appliance = appliances.get(spec.datastore?.appliance ?? '');
        const { releaseId } = status;
        if (appliance === undefined || releaseId === undefined || deletingSince !== undefined) return [];
        const resource = await resources.find(resourceType, spec.datastore?.resourceId ?? '', { signal });
        const rotating =
          resource === undefined
            ? []
            : rotationFindings({ name: spec.name, command: appliance.cli.command }, resource, deps.now());
        const formation = await resources.find(formationType, releaseId, { signal });
        const wanted = formation?.spec.processes[appliance.name] ?? 0;
        // Nobody wants it to be there.
        if (wanted === 0) return rotating;
        const up = upJobs(statusesOfApp(cell, id), releaseId, appliance.name).length;
        const isServed = await deps.isServed(roleService(spec.name, appliance.leadingRole), signal);
        return memberFindings({ name: spec.name, command: appliance.cli.command, wanted, up, isServed }).concat(
          rotating,
        );
      });
      return (await Promise.all(found)).flat();
    },
  };
}

/** `command`: of `flynn`, for its kind. */
type Named = Readonly<{ name: string; command: string }>;
type Facts = Named & Readonly<{ wanted: number; up: number; isServed: boolean }>;

/** Pure. */
export function memberFindings({ name, command, wanted, up, isServed }: Facts): Found[] {
  const subject = `database ${name}`;
  const look = `flynn ${command} -a ${name} tells how its members are, flynn ps -a ${name} where they run`;
  if (!isServed) {
    return [
      {
        severity: 'critical',
        subject,
        matter: 'members',
        what: `it has no primary: ${up} of ${wanted} members are up`,
        why: 'nothing is read from it or written to it; a copy that may lack what was committed last does not take over by itself',
        remedy: `${look}; a member that is restoring serves again by itself, and is waited for; bring the host back that is away; else flynn ${command} failover -a ${name}, which may lose what was committed last`,
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
      matter: 'members',
      what: `${up} of ${wanted} members are up`,
      why: left,
      remedy: `${look}; a host that is gone for good: flynn host remove HOST --give-up-volumes, and the member is copied anew elsewhere`,
    },
  ];
}

/** Pure. What an app that failed keeps good, and one that is not through after a while. */
export function rotationFindings(
  { name, command }: Named,
  { status: { rotation, login } }: Pick<ProvidedResource, 'status'>,
  nowMs: number,
): Found[] {
  if (login?.hasOthers === true && rotation?.state !== 'giving') return [othersFinding({ name, command })];
  if (rotation === undefined || rotation.state === 'done') return [];
  const failures = rotation.state === 'giving' ? Object.values(rotation.apps).map(({ failure }) => failure) : [];
  const failure = failures.find((one) => one !== undefined);
  if (failure === undefined && nowMs - Date.parse(rotation.startedAt) < rotationMs) return [];
  return [
    {
      severity: 'warning',
      subject: `database ${name}`,
      matter: 'password',
      what: `its password is being made anew, and the former one is still good${failure === undefined ? '' : `: ${failure}`}`,
      since: rotation.startedAt,
      why: 'whoever has the former one reads and writes all that is in it until it is through',
      remedy: `flynn ${command} credentials -a ${name} tells what it waits for; flynn ${command} credentials rotate -a ${name} goes on with it`,
    },
  ];
}

function othersFinding({ name, command }: Named): Found {
  return {
    severity: 'warning',
    subject: `database ${name}`,
    matter: 'password',
    what: 'a version of the platform from before passwords were made anew has written its record: a former password of it may be good',
    why: 'whether an app has another one than the present is not known, and whoever knows it reads and writes all that is in it',
    remedy: `flynn resource attach ID --replace for each of its apps, whose ID flynn resource tells, and then flynn ${command} credentials rotate -a ${name}`,
  };
}
