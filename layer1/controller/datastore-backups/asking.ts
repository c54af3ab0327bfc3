/** Has a backup made, and waits for fresh ones of all datastores: the worker makes them, see steps.ts. */
import { type Clock, systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Deps } from '../deps.ts';
import { appType, ownedBy } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { isOnItsWay } from './lanes.ts';
import type { Maker } from './model.ts';
import { inOrder, isUnsettled, maxAttempts, newBackupId, newestComplete } from './plan.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { DatastoreBackupResource } from './types.ts';

const lookMs = 500;
/** One that waits to be tried again waits no longer than this. */
const quietMs = 20 * 60_000;
/** Where one waits for its turn, how often it is looked whether others get on. */
const othersMs = 60_000;

type AskingDeps = Pick<Deps, 'resources' | 'now'>;

/**
 * What was asked for, and of which datastore; `attempt`: those that came before it was. `earlier`: backups that had begun by then,
 * and do not have in them what was written last.
 */
export type Asked = Readonly<{ app: AppResource; backupId: string; attempt: number; earlier: ReadonlySet<string> }>;

export async function askForBackup(
  deps: AskingDeps,
  app: AppResource,
  by: Maker,
  signal: AbortSignal,
): Promise<DatastoreBackupResource> {
  const known = await recordsOf(deps, app, signal);
  return askBeside(deps, known, { app, by }, signal);
}

/** One that waits to begin, or to be tried again, is this wish too, and begins now: as what a person waits for, if one asks. */
async function askBeside(
  deps: AskingDeps,
  known: readonly DatastoreBackupResource[],
  { app, by }: Readonly<{ app: AppResource; by: Maker }>,
  signal: AbortSignal,
): Promise<DatastoreBackupResource> {
  const waiting = inOrder(known).find(isWaiting);
  const hurried = waiting === undefined ? undefined : await hurry(deps, waiting.id, by, signal);
  if (hurried !== undefined) return hurried;
  const { resources, now } = deps;
  return resources.create(
    datastoreBackupType,
    {
      id: newBackupId(now(), shortId()),
      owner: ownedBy(app.id),
      spec: { by },
      status: { state: 'queued', attempt: 0, nextMs: now() },
    },
    { signal },
  );
}

/** Undefined where it has begun meanwhile, or is gone: then it is none that waits. */
async function hurry(
  { resources, now }: AskingDeps,
  id: string,
  by: Maker,
  signal: AbortSignal,
): Promise<DatastoreBackupResource | undefined> {
  const asked = by.is === 'person' ? { isAsked: true } : {};
  const hurried = (one: DatastoreBackupResource) =>
    isWaiting(one) ? { ...one.status, ...asked, nextMs: now() } : one.status;
  try {
    const found = await resources.updateStatus(datastoreBackupType, id, hurried, { signal });
    return isWaiting(found) ? found : undefined;
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    return undefined;
  }
}

/**
 * Of every datastore that runs something. One that a cluster which came back has not put back is left out: its last backup is
 * what is to be in it.
 */
export async function askForAll(deps: AskingDeps, signal: AbortSignal): Promise<Asked[]> {
  const asked: Asked[] = [];
  for (const { app, known } of await backedUp(deps, signal)) {
    const { id, status } = await askBeside(deps, known, { app, by: { is: 'cluster backup' } }, signal);
    asked.push({ app, backupId: id, attempt: status.attempt, earlier: begunOf(known) });
  }
  return asked;
}

/**
 * Of those that have none yet, and are among `names` if there are any: they were made while others were waited for. Members of
 * such a one may have yet to come up.
 */
export async function askForNew(deps: AskingDeps, signal: AbortSignal, names?: ReadonlySet<string>): Promise<Asked[]> {
  const asked: Asked[] = [];
  for (const { app, known } of await backedUp(deps, signal)) {
    if (newestComplete(known) !== undefined || names?.has(app.spec.name) === false) continue;
    const { id } = await askBeside(deps, known, { app, by: { is: 'cluster backup' } }, signal);
    asked.push({ app, backupId: id, attempt: maxAttempts, earlier: begunOf(known) });
  }
  return asked;
}

async function backedUp(
  { resources }: Pick<AskingDeps, 'resources'>,
  signal: AbortSignal,
): Promise<{ app: AppResource; known: DatastoreBackupResource[] }[]> {
  const [apps, plans] = await Promise.all([
    resources.list(appType, { signal, where: isLiveDatastore }),
    resources.list(backupPlanType, { signal }),
  ]);
  const unsettled = new Set(plans.filter(({ status }) => isUnsettled(status.restore)).map(({ id }) => id));
  const found: { app: AppResource; known: DatastoreBackupResource[] }[] = [];
  for (const app of apps) {
    if (!unsettled.has(app.id)) found.push({ app, known: await recordsOf({ resources }, app, signal) });
  }
  return found;
}

function recordsOf(
  { resources }: Pick<AskingDeps, 'resources'>,
  { id }: AppResource,
  signal: AbortSignal,
): Promise<DatastoreBackupResource[]> {
  return resources.list(datastoreBackupType, { owner: ownedBy(id), signal });
}

function begunOf(records: readonly DatastoreBackupResource[]): Set<string> {
  return new Set(records.filter((one) => !isWaiting(one)).map(({ id }) => id));
}

function isWaiting({ status: { state } }: DatastoreBackupResource): boolean {
  return state === 'queued' || state === 'retrying';
}

export function isLiveDatastore({ spec, status, deletingSince }: AppResource): boolean {
  return spec.datastore !== undefined && status.releaseId !== undefined && deletingSince === undefined;
}

/**
 * Resolves once all are complete, also of those that were made meanwhile. `conflict` naming those that could not be made, or that
 * stood still for twenty minutes.
 */
export async function freshBackups(
  deps: AskingDeps,
  { signal, clock = systemClock }: { signal: AbortSignal; clock?: Clock },
): Promise<void> {
  for (let asked = await askForAll(deps, signal); asked.length > 0; asked = await askForNew(deps, signal)) {
    const failed: string[] = [];
    for (const one of asked) {
      const error = await outcomeOf(deps, one, { signal, clock });
      if (error !== undefined) failed.push(`${one.app.spec.name} (${error})`);
    }
    if (failed.length > 0) throw notDumped(failed);
  }
}

/** `undumped`: names of those that nobody has tried to dump yet. */
export function notDumped(failed: readonly string[], undumped?: readonly string[]): FlynnError {
  return new FlynnError(
    'conflict',
    `no whole backup can be made: what is in these databases could not be dumped: ${failed.join(', ')}`,
    undumped === undefined ? {} : { detail: { undumped } },
  );
}

/** When the last of them changed. */
type Others = number | 'restoring';

/** Why it failed, if it did. */
async function outcomeOf(
  { resources, now }: AskingDeps,
  { app, backupId, attempt, earlier }: Asked,
  { signal, clock }: { signal: AbortSignal; clock: Clock },
): Promise<string | undefined> {
  let seen = 0;
  let sinceMs = clock.now();
  let [others, lookedMs]: [Others, number] = [0, sinceMs];
  for (;;) {
    const record = await resources.find(datastoreBackupType, backupId, { signal });
    if (record === undefined) {
      // One that was made for another backup of the cluster since then took its place, or somebody did away with it.
      const isReplaced = (await recordsOf({ resources }, app, signal)).some(
        ({ id, status }) => status.state === 'complete' && !earlier.has(id),
      );
      return isReplaced || !(await isLive(resources, app, signal))
        ? undefined
        : 'it was cancelled, or deleted, meanwhile';
    }
    const { state, error = 'it failed' } = record.status;
    if (state === 'complete') return undefined;
    if (state === 'failed' || (state === 'retrying' && record.status.attempt > attempt)) return error;
    if (record.revision !== seen) sinceMs = clock.now();
    seen = record.revision;
    // Whoever makes one says so every few seconds. One that a worker left waits for its turn with another.
    const isMade = state === 'running' && clock.now() - sinceMs <= othersMs;
    if (!isMade && clock.now() - lookedMs > othersMs) {
      lookedMs = clock.now();
      const before: Others = others;
      others = await othersOf({ resources, now }, backupId, signal);
      if (others === 'restoring' || others !== before) sinceMs = lookedMs;
    }
    if (clock.now() - sinceMs > quietMs) return 'nobody makes it: flynn -a controller ps, does its worker run?';
    await clock.sleep(lookMs, { signal });
  }
}

/** One thing at a time is done for a datastore, and few for all: as long as others change, one that waits will have its turn. */
async function othersOf({ resources, now }: AskingDeps, backupId: string, signal: AbortSignal): Promise<Others> {
  const [records, plans] = await Promise.all([
    resources.list(datastoreBackupType, { signal }),
    resources.list(backupPlanType, { signal }),
  ]);
  if (plans.some(({ status }) => isOnItsWay(status.restore, now()))) return 'restoring';
  return Math.max(0, ...records.filter(({ id }) => id !== backupId).map(({ revision }) => revision));
}

/** What goes with its datastore is none that is missing. */
async function isLive(resources: Deps['resources'], { id, uid }: AppResource, signal: AbortSignal): Promise<boolean> {
  const app = await resources.find(appType, id, { signal });
  return app !== undefined && app.uid === uid && app.deletingSince === undefined;
}
