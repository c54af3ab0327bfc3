/** What is wrong with the histories of datastores? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { archiveType, historyType } from './types.ts';
import type { Archive, HistoryResource } from './types.ts';

/** A member that begins anew, or a worker that gives way, takes less. */
const lateMs = 15 * 60_000;
/** So long a gap is told of. */
const gapMs = 24 * 3_600_000;

export function datastoreHistoryCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>): Check {
  return {
    name: 'histories of databases',
    find: async (signal) => {
      const [histories, archives] = await Promise.all([
        resources.list(historyType, { signal }),
        resources.list(archiveType, { signal }),
      ]);
      const own = new Map(archives.map(({ id, status }) => [id, status]));
      return histories.flatMap((one) => historyFindings(one, own.get(one.id) ?? { bases: [], pieces: [] }, now()));
    },
  };
}

/** Pure. */
export function historyFindings(
  { spec: { datastore }, status }: Pick<HistoryResource, 'spec' | 'status'>,
  { bases }: Archive,
  now: number,
): Found[] {
  const subject = `database ${datastore}`;
  const { failure, base, gap, untilMs, run, at } = status;
  const found: Found[] = [];
  const last = untilMs === undefined ? 'nothing is kept yet' : `the newest moment that is kept is ${iso(untilMs)}`;
  if (failure !== undefined && now - failure.sinceMs >= lateMs) {
    found.push({
      severity: 'critical',
      subject,
      what: `its log is not collected: ${failure.message}`,
      since: iso(failure.sinceMs),
      why: `what is written meanwhile cannot be gone back to: ${last}; members keep 2 GB of it, then there is a gap`,
      remedy: `mend that, it goes on by itself: flynn pg history -a ${datastore}; flynn pg history off -a ${datastore} does without`,
    });
  }
  if (
    at !== undefined &&
    base?.run === run &&
    base.error !== undefined &&
    now - (base.failingSinceMs ?? now) >= lateMs &&
    base.attempt > 1
  ) {
    const hasOne = bases.some((one) => one.run === run && one.readyMs !== undefined);
    found.push({
      severity: hasOne ? 'warning' : 'critical',
      subject,
      what: `no copy of it can be made for its history: ${base.error}`,
      ...(base.failingSinceMs === undefined ? {} : { since: iso(base.failingSinceMs) }),
      why: hasOne
        ? 'going back takes longer, and takes more room'
        : 'without a first copy its log cannot be gone back by',
      remedy: `mend that, it is tried again every hour: flynn pg history -a ${datastore}`,
    });
  }
  if (gap !== undefined && now - gap.atMs < gapMs) {
    found.push({
      severity: 'warning',
      subject,
      what: `its history has a gap: ${gap.reason}`,
      since: iso(gap.atMs),
      why: 'moments in it cannot be gone back to; those before and after can',
      remedy: `flynn pg history -a ${datastore} says which these are; this is told for a day`,
    });
  }
  return found;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
