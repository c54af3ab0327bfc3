/** To which drains does nothing go? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { routes as logRoutes } from '@flynn/log-aggregator/api';
import type { DrainStatus } from '@flynn/log-aggregator/api';
import { hideSecrets } from '@flynn/log-aggregator/drain-url';
import type { Deps } from '../deps.ts';
import { dueInMs } from '../clocks/due.ts';
import { appType, drainType } from '../resources.ts';

/** A receiver that is started anew is no finding. */
const failingMs = 10 * 60_000;
/** Lines that never arrive are told for so long after the last of them. */
const missedMs = 24 * 3_600_000;

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
  return drains.flatMap((drain): Found[] => {
    const status = statuses.find((one) => one.id === drain.id);
    return status === undefined ? [] : [...failingFindings(drain, status, now), ...missedFindings(drain, status, now)];
  });
}

function failingFindings({ id, url, appName }: KnownDrain, status: DrainStatus, now: number): Found[] {
  const { error, since, waiting, skipped } = status;
  if (error === undefined || since === undefined || now - Date.parse(since) < failingMs) return [];
  const lost = skipped === 0 ? '' : `, ${skipped} are lost`;
  return [
    {
      severity: 'warning',
      subject: `drain ${id}`,
      matter: 'failing',
      what: `nothing of ${appName ?? 'all apps'} goes to ${url}: ${error}; ${waiting} lines wait${lost}`,
      since,
      why: 'they wait on disk as long as there is room: then the oldest are lost to it',
      remedy: `put the receiver right, it goes on by itself; or flynn drain remove ${id}`,
    },
  ];
}

/** Lines that never arrive, though others do. */
function missedFindings(
  { id, url, appName }: KnownDrain,
  { gaveUp, lost, damaged }: DrainStatus,
  now: number,
): Found[] {
  const found: Found[] = [];
  const common = { severity: 'warning', subject: `drain ${id}` } as const;
  const of = appName ?? 'all apps';
  if (isRecent(gaveUp, now)) {
    found.push({
      ...common,
      matter: 'given up',
      what: `${linesOf(gaveUp.count)} of ${of} ${wereOf(gaveUp.count)} given up, ${url} refused them for good: ${gaveUp.why}`,
      since: gaveUp.at,
      why: 'they never arrive there; this is told for a day after the last of them',
      remedy: 'what the receiver logs tells what of them it does not take; flynn drain counts them as FAILED',
    });
  }
  if (isRecent(lost, now)) {
    found.push({
      ...common,
      matter: 'lost',
      what: `${linesOf(lost.count)} of ${of} ${wereOf(lost.count)} lost to ${url}: ${lost.why}`,
      since: lost.at,
      why: 'they never arrive there: it was away for too long, or takes less than is written; this is told for a day',
      remedy:
        'see that the receiver keeps up, or keep more: FLYNN_LOG_APP_MB and FLYNN_LOG_TOTAL_MB of the app log-aggregator',
    });
  }
  if (isRecent(damaged, now)) {
    found.push({
      ...common,
      matter: 'damaged',
      what: `${linesOf(damaged.count)} of ${of} never ${damaged.count === 1 ? 'gets' : 'get'} to ${url}: ${damaged.why}`,
      since: damaged.at,
      why: 'they are in no log either; the receiver is not the reason; this is told for a day after the last of them',
      remedy:
        'if its host lost power, that was all; if not, see to the disk of the host that flynn ps -a log-aggregator shows: dmesg tells its errors',
    });
  }
  return found;
}

function linesOf(count: number): string {
  return `${count} ${count === 1 ? 'line' : 'lines'}`;
}

function wereOf(count: number): string {
  return count === 1 ? 'was' : 'were';
}

type Missed = NonNullable<DrainStatus['lost']>;

/** Is it still to be told? */
export function isRecent(missed: Missed | undefined, now: number): missed is Missed {
  return missed !== undefined && dueInMs(Date.parse(missed.at) + missedMs, now, 2 * missedMs) > 0;
}
