/** To which drains does nothing go? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { routes as logRoutes } from '@flynn/log-aggregator/api';
import type { DrainStatus } from '@flynn/log-aggregator/api';
import { hideSecrets } from '@flynn/log-aggregator/drain-url';
import type { Deps } from '../deps.ts';
import { appType, drainType } from '../resources.ts';

/** A receiver that is started anew is no finding. */
const failingMs = 10 * 60_000;

export type KnownDrain = { id: string; url: string; appName: string | undefined };

export function drainCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>, logAggregator: HttpClient): Check {
  return {
    name: 'drains',
    async find(signal) {
      const [drains, apps] = await Promise.all([
        resources.list(drainType, { signal }),
        resources.list(appType, { signal }),
      ]);
      if (drains.length === 0) return [];
      const names = new Map(apps.map(({ id, spec }) => [id, spec.name]));
      const known = drains.map(({ id, spec: { url, appId } }): KnownDrain => {
        return { id, url: hideSecrets(url), appName: appId === undefined ? undefined : names.get(appId) };
      });
      try {
        return drainFindings(known, await logAggregator.call(logRoutes.drains, {}, { signal }), now());
      } catch (error) {
        // That it does not answer is told as a part of the platform that is not healthy.
        if (hasCode(error, 'unavailable')) return [];
        throw error;
      }
    },
  };
}

/** Pure. */
export function drainFindings(drains: readonly KnownDrain[], statuses: readonly DrainStatus[], now: number): Found[] {
  return drains.flatMap(({ id, url, appName }): Found[] => {
    const status = statuses.find((one) => one.id === id);
    if (status?.error === undefined || status.since === undefined) return [];
    if (now - Date.parse(status.since) < failingMs) return [];
    const { error, since, waiting, skipped } = status;
    const lost = skipped === 0 ? '' : `, ${skipped} are lost`;
    return [
      {
        severity: 'warning',
        subject: `drain ${id}`,
        what: `nothing of ${appName ?? 'all apps'} goes to ${url}: ${error}; ${waiting} lines wait${lost}`,
        since,
        why: 'they wait on disk as long as there is room: then the oldest are lost to it',
        remedy: `put the receiver right, it goes on by itself; or flynn drain remove ${id}`,
      },
    ];
  });
}
