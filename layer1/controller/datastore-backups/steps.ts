/**
 * Does what is next for a datastore: makes backups as its plan has them or somebody asks, tries again, and puts back.
 *
 * INVARIANTS. One thing at a time for each datastore: the worker that leads does it, and what it writes carries its term's compare.
 * That an attempt begins is written down before it begins, with when another may: a worker that dies leaves nothing for ever.
 * A record names a blob only once all of it is stored.
 */
import { appliances } from '@flynn/appliances/appliances';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Again } from '@flynn/resource/reconciler';
import { appType, ownedBy } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { type DumpBlobs, makeDump } from './making.ts';
import { Meter } from './meter.ts';
import {
  defaultKeep,
  defaultSchedule,
  maxAttempts,
  newBackupId,
  nextOrder,
  nextStep,
  retryAt,
  superfluous,
} from './plan.ts';
import { putBack } from './putting-back.ts';
import { newSecret } from './sealing.ts';
import { guard, iso, memberOf } from './subject.ts';
import type { StepDeps, StepOptions, Subject } from './subject.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { BackupPlan, DatastoreBackupResource } from './types.ts';

type Status = DatastoreBackupResource['status'];

/** One look at the datastore of that app. */
export async function stepDatastore(
  deps: StepDeps,
  blobs: DumpBlobs,
  appId: string,
  options: StepOptions,
): Promise<void | Again> {
  const { resources, now } = deps;
  const { signal } = options;
  const app = await resources.find(appType, appId, { signal });
  const appliance = appliances.get(app?.spec.datastore?.appliance ?? '');
  if (app === undefined || app.deletingSince !== undefined || appliance === undefined) return undefined;
  const plan = await ensurePlan(deps, app, options);
  const subject = { app, appliance, plan };
  // Nothing is in it yet: its first backup comes after its first deployment.
  if (app.status.releaseId === undefined) return undefined;
  const records = await resources.list(datastoreBackupType, { owner: ownedBy(app.id), signal });
  const step = nextStep(plan, records, now());
  switch (step.do) {
    case 'wait':
      return step.untilMs === undefined ? undefined : { againInMs: Math.max(1, step.untilMs - now()) };
    case 'restore':
      return putBack(deps, blobs, { ...subject, restore: step.restore, records }, options);
    case 'back up': {
      const record = step.record ?? (await beginTick(deps, subject, options));
      await backUp(deps, blobs, { ...subject, record, records }, options);
      return { againInMs: 1 };
    }
  }
}

async function ensurePlan(deps: StepDeps, { id, spec }: AppResource, options: StepOptions): Promise<BackupPlan> {
  const { resources, now } = deps;
  const { signal } = options;
  const known = await resources.find(backupPlanType, id, { signal });
  if (known !== undefined) return known;
  const { name: datastore } = spec;
  return resources.create(
    backupPlanType,
    {
      id,
      owner: ownedBy(id),
      spec: { datastore, schedule: defaultSchedule(id), keep: defaultKeep, secret: newSecret() },
      status: { handledMs: now() },
    },
    { signal, also: guard(options) },
  );
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
  options: StepOptions,
): Promise<void> {
  const { now, log, hosts } = deps;
  const { signal, quietMs } = options;
  const attempt = record.status.attempt + 1;
  const begun = { attempt, startedAt: iso(now()), orderMs: nextOrder(records, now()) };
  const write = (status: Omit<Status, keyof typeof begun>) =>
    writeBackup(deps, record.id, { ...begun, ...status }, options);
  const nextMs = retryAt(attempt, now()) ?? now();
  const before = record.status.error === undefined ? {} : { error: record.status.error };
  if (attempt > maxAttempts) {
    const { error = 'whoever made it died' } = before;
    return write({ ...record.status, state: 'failed', nextMs, endedAt: iso(now()), error });
  }
  await write({ state: 'running', nextMs, ...before });
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
    if (signal.aborted) throw error;
    // Its datastore was deleted meanwhile, and the record with it.
    if (hasCode(error, 'not_found') && (await isGone(deps, record.id, signal))) return;
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
    });
    return;
  }
  await forgetOld(deps, plan, options);
}

/** Their blobs go with the next collection. */
async function forgetOld({ resources }: StepDeps, plan: BackupPlan, options: StepOptions): Promise<void> {
  const { signal } = options;
  const records = await resources.list(datastoreBackupType, { owner: ownedBy(plan.id), signal });
  for (const { id } of superfluous(records, plan.spec.keep)) {
    await resources.delete(datastoreBackupType, id, { signal, also: guard(options) }).catch(ignoreGone);
  }
}

async function writeBackup(deps: StepDeps, id: string, status: Status, options: StepOptions): Promise<void> {
  const { signal } = options;
  await deps.resources.updateStatus(datastoreBackupType, id, () => status, { signal, also: guard(options) });
}

async function isGone({ resources }: StepDeps, id: string, signal: AbortSignal): Promise<boolean> {
  return (await resources.find(datastoreBackupType, id, { signal })) === undefined;
}

function ignoreGone(error: unknown): void {
  if (!hasCode(error, 'not_found')) throw error;
}
