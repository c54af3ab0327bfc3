/**
 * Does what is next for a datastore: makes backups as its plan has them or somebody asks, tries again, and puts back.
 *
 * INVARIANTS. One thing at a time for each datastore, in whichever lane: whoever does it has its turn, in the worker that
 * leads, and what that writes carries its term's compare. A restore waits for nothing that nobody waits for: a dump that is made
 * by itself gives way, and is what it was before it was begun. That an attempt begins is written down before it begins, with
 * when another may: a worker that dies leaves nothing for ever. It begins as what it was read as, or not: somebody may have asked
 * for it, or cancelled it, meanwhile. One whose record is gone was cancelled: its program is ended with the next word of how far it
 * is. A record names a blob only once all of it is stored.
 */
import { appliances } from '@flynn/appliances/appliances';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Again } from '@flynn/resource/reconciler';
import type { Revision } from '@flynn/store/store';
import { appType, ownedBy } from '../resources.ts';
import { type DumpBlobs, makeDump } from './making.ts';
import { Meter } from './meter.ts';
import { awaitsDeployment, isAskedFor, laneOf } from './lanes.ts';
import type { Lane } from './lanes.ts';
import { maxAttempts, newBackupId, nextOrder, nextStep, retryAt, superfluous } from './plan.ts';
import type { DatastoreStep } from './plan.ts';
import { putBack } from './putting-back.ts';
import { guard, iso, memberOf } from './subject.ts';
import type { StepDeps, StepOptions, Subject } from './subject.ts';
import type { Turns } from './turns.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { BackupPlan, DatastoreBackupResource } from './types.ts';

type Status = DatastoreBackupResource['status'];

/** Whoever has the turn ends soon, or is told to. */
const turnAgain: Again = { againInMs: 500 };

type Options = StepOptions & Readonly<{ lane: Lane; turns: Turns }>;
type WriteOptions = StepOptions & Readonly<{ expectRevision?: Revision }>;
type Seen = Subject & Readonly<{ records: readonly DatastoreBackupResource[]; step: DatastoreStep }>;

/** One look at the datastore of that app, by who does what goes in that lane. */
export async function stepDatastore(
  deps: StepDeps,
  blobs: DumpBlobs,
  appId: string,
  options: Options,
): Promise<void | Again> {
  const { lane, turns } = options;
  const { now } = deps;
  const first = await lookAt(deps, appId, options);
  if (first === undefined) return undefined;
  if (first.step.do === 'wait') return untilThen(first.step, now());
  if (laneOf(first.step) !== lane) return undefined;
  if (first.step.do === 'restore' && awaitsDeployment(first.app, first.step.restore, now())) return turnAgain;
  using turn = turns.take(appId);
  if (turn === undefined) {
    if (lane === 'restores') turns.askFor(appId);
    return turnAgain;
  }
  // Whoever had it before has changed what is next.
  const seen = await lookAt(deps, appId, options);
  if (seen === undefined) return undefined;
  const { step, ...subject } = seen;
  if (step.do === 'wait' || laneOf(step) !== lane) return { againInMs: 1 };
  if (step.do === 'restore') return putBack(deps, blobs, { ...subject, restore: step.restore }, options);
  const record = step.record ?? (await beginTick(deps, subject, options));
  // What is not found is the record: somebody cancelled it, or the datastore goes.
  await backUp(deps, blobs, { ...subject, record }, { ...options, wanted: turn.wanted }).catch(ignoreGone);
  return { againInMs: 1 };
}

/** Undefined where nothing is to be done: of a datastore that ran nothing the first backup comes after its first deployment. */
async function lookAt(deps: StepDeps, appId: string, { signal }: StepOptions): Promise<Seen | undefined> {
  const { resources, now } = deps;
  const app = await resources.find(appType, appId, { signal });
  const appliance = appliances.get(app?.spec.datastore?.appliance ?? '');
  if (app === undefined || app.deletingSince !== undefined || appliance === undefined) return undefined;
  if (app.status.releaseId === undefined) return undefined;
  const plan = await resources.find(backupPlanType, appId, { signal });
  if (plan === undefined) return undefined;
  const records = await resources.list(datastoreBackupType, { owner: ownedBy(appId), signal });
  return { app, appliance, plan, records, step: nextStep(plan, records, now()) };
}

function untilThen({ untilMs }: Extract<DatastoreStep, { do: 'wait' }>, nowMs: number): Again | undefined {
  return untilMs === undefined ? undefined : { againInMs: Math.max(1, untilMs - nowMs) };
}

/** However many ticks were missed, it is one backup. The tick is dealt with once its record is there. */
async function beginTick(deps: StepDeps, { plan }: Subject, options: StepOptions): Promise<DatastoreBackupResource> {
  const { resources, now } = deps;
  const { signal } = options;
  const record = await resources.create(
    datastoreBackupType,
    {
      id: newBackupId(now(), shortId()),
      owner: ownedBy(plan.id),
      spec: { by: { is: 'schedule' } },
      status: { state: 'queued', attempt: 0, nextMs: now() },
    },
    { signal, also: guard(options) },
  );
  const handled = ({ status }: BackupPlan) => ({ ...status, handledMs: now() });
  await resources.updateStatus(backupPlanType, plan.id, handled, { signal, also: guard(options) });
  return record;
}

/** Which it is, among all of its datastore. */
type Named = Readonly<{ record: DatastoreBackupResource; records: readonly DatastoreBackupResource[] }>;

async function backUp(
  deps: StepDeps,
  blobs: DumpBlobs,
  { app, appliance, plan, record, records }: Subject & Named,
  options: StepOptions & { wanted: AbortSignal },
): Promise<void> {
  const { now, log, hosts } = deps;
  const { quietMs } = options;
  const signal = isAskedFor(record) ? options.signal : AbortSignal.any([options.signal, options.wanted]);
  const attempt = record.status.attempt + 1;
  const begun = { attempt, startedAt: iso(now()), orderMs: nextOrder(records, now()) };
  const asRead = { ...options, expectRevision: record.revision };
  const write = (status: Omit<Status, keyof typeof begun>, how: WriteOptions = options) =>
    writeBackup(deps, record.id, { ...begun, ...status }, how);
  const nextMs = retryAt(attempt, now()) ?? now();
  const { error: failure, isAsked } = record.status;
  const before = { ...(failure === undefined ? {} : { error: failure }), ...(isAsked === true ? { isAsked } : {}) };
  if (attempt > maxAttempts) {
    const error = failure ?? 'whoever made it died';
    return write({ ...record.status, state: 'failed', nextMs, endedAt: iso(now()), error }, asRead);
  }
  await write({ state: 'running', nextMs, ...before }, asRead);
  const meter = new Meter(now, (dumpBytes) => write({ state: 'running', nextMs, dumpBytes, ...before }));
  try {
    const member = memberOf(deps, { app, appliance }, attempt);
    const made = await makeDump(
      hosts,
      blobs,
      { member, command: appliance.commands.dump, secret: plan.spec.secret },
      { signal, onProgress: (bytes) => meter.count(bytes), quietMs },
    );
    await write({ state: 'complete', nextMs: now(), endedAt: iso(now()), ...made });
    log.info({ datastore: app.spec.name, backup: record.id, dumpBytes: made.dumpBytes }, 'a datastore was backed up');
  } catch (error) {
    if (options.signal.aborted) throw error;
    if (await isGone(deps, record.id, options.signal)) {
      log.info({ datastore: app.spec.name, backup: record.id }, 'a backup was cancelled, or its datastore deleted');
      return;
    }
    if (signal.aborted) {
      const { attempt: triedBefore } = record.status;
      const state = triedBefore === 0 ? 'queued' : 'retrying';
      await writeBackup(deps, record.id, { ...before, state, attempt: triedBefore, nextMs: now() }, options);
      log.info({ datastore: app.spec.name, backup: record.id }, 'a backup gave way to a restore: it is made after it');
      return;
    }
    const retryMs = retryAt(attempt, now());
    log.error(
      { err: error, datastore: app.spec.name, backup: record.id, attempt },
      'a datastore could not be backed up',
    );
    await write({
      state: retryMs === undefined ? 'failed' : 'retrying',
      nextMs: retryMs ?? now(),
      endedAt: iso(now()),
      error: messageOf(error).slice(0, 1_000),
      ...(isAsked === true ? { isAsked } : {}),
    });
    return;
  }
  await forgetOld(deps, plan, options);
}

/** Their blobs go with the next collection. */
async function forgetOld({ resources }: StepDeps, plan: BackupPlan, options: StepOptions): Promise<void> {
  const { signal } = options;
  const records = await resources.list(datastoreBackupType, { owner: ownedBy(plan.id), signal });
  // Somebody may have asked for a restore while this one was made.
  const { status } = await resources.get(backupPlanType, plan.id, { signal });
  for (const { id } of superfluous(records, plan.spec.keep, status.restore)) {
    await resources.delete(datastoreBackupType, id, { signal, also: guard(options) }).catch(ignoreGone);
  }
}

async function writeBackup(deps: StepDeps, id: string, status: Status, options: WriteOptions): Promise<void> {
  const { signal, expectRevision } = options;
  const expected = expectRevision === undefined ? {} : { expectRevision };
  await deps.resources.updateStatus(datastoreBackupType, id, () => status, {
    signal,
    also: guard(options),
    ...expected,
  });
}

async function isGone({ resources }: StepDeps, id: string, signal: AbortSignal): Promise<boolean> {
  return (await resources.find(datastoreBackupType, id, { signal })) === undefined;
}

function ignoreGone(error: unknown): void {
  if (!hasCode(error, 'not_found')) throw error;
}
