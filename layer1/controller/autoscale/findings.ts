/** Which types are to be scaled by themselves, and cannot be? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import { autoscaleType } from './resource.ts';
import type { AutoscaleResource } from './resource.ts';

/** What only passes is not told. That jobs wait for a host is told of whatever wants them. */
const blindMs = 600_000;

export function autoscaleCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>): Check {
  return {
    name: 'autoscale',
    async find(signal) {
      const all = await resources.list(autoscaleType, { signal });
      if (all.length === 0) return [];
      const names = new Map((await resources.list(appType, { signal })).map(({ id, spec }) => [id, spec.name]));
      return autoscaleFindings(all, { now: now(), nameOf: (appId) => names.get(appId) });
    },
  };
}

/** `nameOf` an app, if it is there. Pure. */
export function autoscaleFindings(
  all: readonly Pick<AutoscaleResource, 'spec' | 'status'>[],
  { now, nameOf }: { now: number; nameOf: (appId: string) => string | undefined },
): Found[] {
  return all.flatMap(({ spec: { appId, type }, status: { held } }): Found[] => {
    const app = nameOf(appId);
    if (app === undefined || held?.reason !== 'blind' || now - Date.parse(held.since) < blindMs) return [];
    return [
      {
        severity: 'warning',
        subject: `app ${app}`,
        matter: type,
        what: `${type} is to be scaled by itself, and what it does is not known: ${held.why}`,
        since: held.since,
        why: 'it keeps the jobs it has, though there may be less to do',
        remedy: `flynn -a ${app} autoscale tells more; flynn -a ${app} autoscale remove ${type} leaves it to you`,
      },
    ];
  });
}
