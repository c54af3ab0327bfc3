/** What is wrong with the histories of datastores? */
import { appliances } from '@flynn/appliances/appliances';
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import { allPieces, logAfter } from './pieces.ts';
import { mostRecent } from './plan.ts';
import { rangesOf } from './ranges.ts';
import { historyDays, wantsMembers } from './subject.ts';
import { archiveType, historyType } from './types.ts';
import type { Archive, HistoryResource, Missing } from './types.ts';

/** A member that begins anew, or a worker that gives way, takes less. */
const lateMs = 15 * 60_000;
/** So long a gap is told of. */
const gapMs = 24 * 3_600_000;
/** What is kept, and how many copies it is as large as, before it is told. */
const largeBytes = 10 * 1024 ** 3;
const largeCopies = 10;
/** After a gap a copy is there within the hour, if it may be. */
const noneMs = 2 * 3_600_000;

export function datastoreHistoryCheck({ resources, cell, now }: Pick<Deps, 'resources' | 'cell' | 'now'>): Check {
  return {
    name: 'histories of databases',
    find: async (signal) => {
      const [apps, histories, archives, plans] = await Promise.all([
        resources.list(appType, { signal, where: ({ spec }) => spec.datastore !== undefined }),
        resources.list(historyType, { signal }),
        resources.list(archiveType, { signal }),
        resources.list(backupPlanType, { signal }),
      ]);
      const own = new Map(archives.map(({ id, status }) => [id, status]));
      const known = new Map(histories.map((one) => [one.id, one]));
      const kept = new Set(plans.filter((plan) => historyDays(plan) > 0).map(({ id }) => id));
      const found = apps.map(async (app): Promise<Found[]> => {
        const { id, spec, deletingSince } = app;
        const hasOne = appliances.get(spec.datastore?.appliance ?? '')?.history !== undefined;
        if (!hasOne || deletingSince !== undefined || !kept.has(id)) return [];
        const isWanted = await wantsMembers(resources, app, signal);
        const history = known.get(id);
        const archive = own.get(id) ?? { bases: [], pieces: [] };
        const started = statusesOfApp(cell, id).map((one) => (one.state === 'running' ? one.startedAt : undefined));
        const sinceMs = Math.min(...started.filter((ms) => ms !== undefined));
        const runsSinceMs = Number.isFinite(sinceMs) ? sinceMs : 0;
        if (history !== undefined) return historyFindings(history, archive, { now: now(), isWanted, runsSinceMs });
        return isWanted && now() - sinceMs >= lateMs ? [noneFinding(spec.name, sinceMs)] : [];
      });
      return (await Promise.all(found)).flat();
    },
  };
}

function noneFinding(datastore: string, sinceMs: number): Found {
  return {
    severity: 'critical',
    subject: `database ${datastore}`,
    matter: 'log',
    what: 'it has no history yet, and its members run',
    since: iso(sinceMs),
    why: 'what is in it cannot be gone back to; it is looked for in the blob store before it begins',
    remedy: 'see that the blob store answers: flynn doctor; flynn -a controller log -t worker has what stops it',
  };
}

/** Pure. Of one that is kept. */
export function historyFindings(
  { spec: { datastore }, status, createdAt }: Pick<HistoryResource, 'spec' | 'status' | 'createdAt'>,
  archive: Archive,
  { now, isWanted, runsSinceMs }: Readonly<{ now: number; isWanted: boolean; runsSinceMs: number }>,
): Found[] {
  const subject = `database ${datastore}`;
  const { bases } = archive;
  const { failure, base, gap, untilMs, run, at, begunMs, unmerged, looked } = status;
  const found: Found[] = [];
  const last = untilMs === undefined ? 'nothing is kept yet' : `the newest moment that is kept is ${iso(untilMs)}`;
  // Whatever the reason: also where nobody could write it down. Before its members run there is nothing to be collected.
  const sinceMs = failure?.sinceMs ?? Math.max(untilMs ?? now, runsSinceMs);
  if (isWanted && now - sinceMs >= lateMs) {
    found.push({
      severity: 'critical',
      subject,
      matter: 'log',
      what: `its log is not collected: ${failure?.message ?? 'nobody says why'}`,
      since: iso(sinceMs),
      why: `what is written meanwhile cannot be gone back to: ${last}; members keep 2 GB of it, then there is a gap`,
      remedy: `mend that, it goes on by itself: flynn pg history -a ${datastore}; flynn pg history off -a ${datastore} does without`,
    });
  }
  if (
    isWanted &&
    at !== undefined &&
    base?.run === run &&
    base.error !== undefined &&
    now - (base.failingSinceMs ?? now) >= lateMs &&
    base.attempt > 1
  ) {
    const hasOne = bases.some((one) => one.run === run && one.readyMs !== undefined && !one.isLost);
    found.push({
      severity: hasOne ? 'warning' : 'critical',
      subject,
      matter: 'copy',
      what: `no copy of it can be made for its history: ${base.error}`,
      ...(base.failingSinceMs === undefined ? {} : { since: iso(base.failingSinceMs) }),
      why: hasOne
        ? 'going back takes longer, and takes more room'
        : 'without a first copy its log cannot be gone back by',
      remedy: `mend that, it is tried again every hour: flynn pg history -a ${datastore}`,
    });
  }
  const newestMs = rangesOf(archive, status).at(-1)?.untilMs ?? Date.parse(createdAt);
  // With each gap another begins. Without one a run has so long for its first copy.
  const isFirst = gap === undefined;
  // Where its log stands still, that is another matter, and told.
  const pieces = allPieces(archive, status);
  const isJoined = bases.some(
    (base) => base.run === run && base.readyMs !== undefined && !base.isLost && logAfter(base, pieces).gap < 0,
  );
  const begunAtMs = isFirst ? (begunMs ?? (at === undefined ? now : 0)) : 0;
  const isTold = isWanted && failure === undefined && !(isFirst && isJoined);
  if (isTold && now - Math.max(newestMs, runsSinceMs, begunAtMs) >= noneMs) {
    const reason = isFirst ? 'no copy is there that its log goes on from' : 'gaps come faster than copies are made';
    found.push({
      severity: 'critical',
      subject,
      matter: 'no moment',
      what: `no moment since ${iso(newestMs)} can be gone back to: ${reason}`,
      why: isFirst ? 'moments need a whole copy before them' : 'moments after a gap need a copy that was made after it',
      remedy: isFirst
        ? `while its first copy is made this is told: flynn pg history -a ${datastore}; flynn -a controller log -t worker has what stops it`
        : `write less at once, or see why its log is not collected in time: ${gap.reason}`,
    });
  }
  if (unmerged !== undefined && now - unmerged.sinceMs >= lateMs) {
    found.push({
      severity: 'warning',
      subject,
      matter: 'merge',
      what: `its log cannot be merged: ${unmerged.message}`,
      since: iso(unmerged.sinceMs),
      why: `with ${mostRecent} parts that wait nothing more is collected`,
      remedy: 'see that the hosts that keep blobs are up: flynn doctor',
    });
  }
  const missing = looked?.missing.filter((one) => now - one.sinceMs >= lateMs) ?? [];
  const [first] = missing;
  const gone = new Set(missing.map(({ digest }) => digest));
  const copies = bases.filter((one) => one.run === run && one.readyMs !== undefined);
  if (first !== undefined || copies.some(({ isLost }) => isLost)) {
    const isWhole = copies.some(({ isLost, digest }) => !isLost && !gone.has(digest));
    if (first !== undefined || !isWhole) found.push(missingFinding(datastore, { missing, isWhole }));
  }
  const copyBytes = bases.at(-1)?.blobBytes ?? 0;
  const bytes = [...bases, ...allPieces(archive, status)].reduce((sum, { blobBytes }) => sum + blobBytes, 0);
  if (bytes >= largeBytes && bytes >= largeCopies * copyBytes) {
    found.push({
      severity: 'warning',
      subject,
      matter: 'large',
      what: `its history takes ${Math.round(bytes / 1024 ** 3)} GiB, and a copy of it ${(copyBytes / 1024 ** 3).toFixed(1)} GiB`,
      why: 'much is written to it, and each byte of that is kept, on two hosts or in the bucket',
      remedy: `keep fewer days: flynn pg history on --keep 2d -a ${datastore}`,
    });
  }
  if (gap !== undefined && now - gap.atMs < gapMs) {
    found.push({
      severity: 'warning',
      subject,
      matter: 'gap',
      what: `its history has a gap: ${gap.reason}`,
      since: iso(gap.atMs),
      why: 'moments in it cannot be gone back to; those before and after can',
      remedy: `flynn pg history -a ${datastore} says which these are; this is told for a day`,
    });
  }
  return found;
}

function missingFinding(
  datastore: string,
  { missing, isWhole }: Readonly<{ missing: readonly Missing[]; isWhole: boolean }>,
): Found {
  const [first] = missing;
  const which = first === undefined ? 'its copies' : `${missing.length} of its parts, like ${first.digest},`;
  return {
    severity: isWhole ? 'warning' : 'critical',
    subject: `database ${datastore}`,
    matter: 'missing',
    what: `of its history ${which} cannot be read`,
    ...(first === undefined ? {} : { since: iso(first.sinceMs) }),
    why: isWhole
      ? 'moments that need them cannot be gone back to; after an hour they are given up, as a gap, and it is copied anew'
      : 'nothing of the present run of it can be gone back to until it is copied anew',
    remedy: `bring back the hosts that keep blobs: flynn doctor; flynn pg history -a ${datastore} says what there is`,
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
