/** Which receivers of notifications take none, or never got one? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { isLost } from './queue.ts';
import { urlShown } from './shown.ts';
import { notificationType } from './types.ts';
import type { NotificationResource, NotificationSpec } from './types.ts';

/** A receiver that is started anew is no finding; one of the cluster's that is away for long has people rely on nothing. */
const marks = { failingMs: 10 * 60_000, criticalMs: 3_600_000 } as const;

export function notificationCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>): Check {
  return {
    name: 'notifications',
    find: async (signal) => notificationFindings(await resources.list(notificationType, { signal }), now()),
  };
}

/** Pure. Never with what an address holds beyond its host. */
export function notificationFindings(
  all: readonly Pick<NotificationResource, 'spec' | 'status'>[],
  now: number,
): Found[] {
  return all.flatMap(({ spec, status }): Found[] => {
    const subject = `notification ${spec.name}`;
    const { failing, lost, waiting } = status;
    const gone = isLost(status, now) ? (lost?.count ?? 0) : 0;
    const failedMs = failing === undefined ? 0 : now - Date.parse(failing.since);
    const isFailing = failing !== undefined && failedMs >= marks.failingMs;
    const isUnconfirmed = status.isRestored === true && spec.on.includes('heartbeat');
    const restored = isUnconfirmed ? [restoredFinding(spec)] : [];
    if (!isFailing && gone === 0) return restored;
    const answer = failing?.answer ?? lost?.answer;
    const said = answer === undefined ? '' : `: ${answer}`;
    const waits = `${waiting.length} wait${gone === 0 ? '' : `, ${gone} were given up`}`;
    const shown = urlShown(spec.url);
    const since = isFailing ? failing.since : lost?.at;
    const isGrave = spec.appId === undefined && (gone > 0 || failedMs >= marks.criticalMs);
    return [
      ...restored,
      {
        severity: isGrave ? 'critical' : 'warning',
        subject,
        matter: 'refused',
        what: isFailing
          ? `${shown} does not take what it is to be told${said}; ${waits}`
          : `${shown} never got ${gone} of its messages${said}; ${waits}`,
        ...(since === undefined ? {} : { since }),
        why: 'whoever relies on it hears of nothing; a message is tried for a day',
        remedy: `flynn notification log ${spec.name} has what it said; this ends once it accepts: flynn notification test ${spec.name}`,
      },
    ];
  });
}

/** What waits for the pulse hears nothing, and says so: whoever brought the cluster back is to decide. */
function restoredFinding({ name, url }: Pick<NotificationSpec, 'name' | 'url'>): Found {
  return {
    severity: 'warning',
    subject: `notification ${name}`,
    matter: 'restored',
    what: `no heartbeat is sent to ${urlShown(url)}: the notification came from a backup`,
    why: 'beside the cluster that it was made of it would hide that this is down',
    remedy: `flynn notification test ${name} where this cluster took its place; flynn notification remove ${name} otherwise`,
  };
}
