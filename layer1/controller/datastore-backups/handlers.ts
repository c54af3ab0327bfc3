/** Datastores' backups, as they are asked for and followed. The worker does it: see steps.ts. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { CheckedCall } from '@flynn/kit/http-handler';
import { Readable } from 'node:stream';
import { principalOf } from '../access/principal.ts';
import { momentAsked, recoveryOf } from '../datastore-history/recovery.ts';
import { parseSchedule } from '../cron/schedule.ts';
import type { Deps } from '../deps.ts';
import { checkChange, isSeen, sightOf } from '../providers/sight.ts';
import { resourceType } from '../providers/types.ts';
import { commandOf } from '../datastores/lookup.ts';
import { appType, ownedBy } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { datastoreBackups as routes } from './api.ts';
import { askForBackup } from './asking.ts';
import { cancelBackup, withdrawn } from './cancelling.ts';
import { type DumpBlobs, openDump } from './making.ts';
import { waitsFor } from './lanes.ts';
import { isOpen, isPutBack, isUnsettled, viewBackup, viewBackups, viewRestore, viewSchedule } from './plan.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { BackupPlan, DatastoreBackupResource, PendingRestore } from './types.ts';

export function datastoreBackupHandlers(deps: Deps, blobs: Pick<DumpBlobs, 'get'>): Handler[] {
  const { resources, now } = deps;
  return [
    handle(routes.list, async (call) => {
      const app = await datastoreOf(deps, call, call.params.resource, 'see');
      const { signal } = call;
      const [plan, records] = await Promise.all([
        planOf(deps, app, signal),
        resources.list(datastoreBackupType, { owner: ownedBy(app.id), signal }),
      ]);
      if (plan.status.restore?.state !== 'wanted') return viewBackups(plan, records);
      const where = ({ id, status }: BackupPlan): boolean => id !== app.id && status.restore?.state === 'running';
      const { length: restoring } = await resources.list(backupPlanType, { signal, where });
      return viewBackups(plan, records, waitsFor({ app, plan, records, restoring }, now()));
    }),
    handle(routes.run, async (call) => {
      const app = await datastoreOf(deps, call, call.params.resource);
      const by = { is: 'person', name: principalOf(call).name } as const;
      return viewBackup(await askForBackup(deps, app, by, call.signal));
    }),
    handle(routes.download, async (call) => {
      const { params, signal } = call;
      const app = await datastoreOf(deps, call, params.resource);
      const { digest, dumpBytes } = await completeBackup(deps, app, params.backup, signal);
      const plan = await planOf(deps, app, signal);
      const dump = await openDump(blobs, { digest, secret: plan.spec.secret }, signal);
      const headers = { 'content-length': String(dumpBytes) };
      return { body: Readable.from(dump, { objectMode: false }), headers };
    }),
    handle(routes.remove, async (call) => {
      const { params, signal } = call;
      const app = await datastoreOf(deps, call, params.resource);
      const backup = await findBackup(deps, app, params.backup, signal);
      if (isOpen(backup)) {
        const cancel = `flynn ${commandOf(app)} backup cancel ${backup.id} -a ${app.spec.name}`;
        throw new FlynnError('conflict', `${backup.id} is under way: "${cancel}" ends it`);
      }
      if (isPutBack(backup.id, (await planOf(deps, app, signal)).status.restore)) {
        throw new FlynnError('conflict', `${backup.id} is being put back: it can be deleted once that has ended`);
      }
      await resources.delete(datastoreBackupType, backup.id, { signal, expectUid: backup.uid });
    }),
    handle(routes.cancel, async (call) => {
      const { params, signal } = call;
      const app = await datastoreOf(deps, call, params.resource);
      await cancelBackup(deps, await findBackup(deps, app, params.backup, signal), signal);
    }),
    handle(routes.schedule, async (call) => {
      const { body, signal } = call;
      const app = await datastoreOf(deps, call, call.params.resource);
      const { schedule, timezone } = body;
      parseSchedule(schedule, timezone);
      const set = await changePlan(deps, app, signal, ({ spec: { timezone: _t, ...spec }, status }) => ({
        spec: { ...spec, schedule, keep: body.keep ?? spec.keep, ...(timezone === undefined ? {} : { timezone }) },
        // Its ticks count from now on.
        status: { ...status, handledMs: now() },
      }));
      return viewSchedule(set);
    }),
    handle(routes.unschedule, async (call) => {
      const app = await datastoreOf(deps, call, call.params.resource);
      await changePlan(deps, app, call.signal, ({ spec: { schedule: _s, timezone: _t, ...spec }, status }) => ({
        spec,
        status,
      }));
    }),
    handle(routes.restore, async (call) => {
      const { params, body, signal } = call;
      const app = await datastoreOf(deps, call, params.resource);
      const what = 'at' in body ? await momentOf(deps, call, app, body) : { backupId: body.backup };
      if ('backup' in body) await completeBackup(deps, app, body.backup, signal);
      const restore: PendingRestore = {
        state: 'wanted',
        ...what,
        by: principalOf(call).name,
        wantedMs: now(),
        attempt: 0,
        nextMs: now(),
      };
      await changePlan(deps, app, signal, ({ spec, status }) => {
        checkIdle(app, status.restore);
        const owed = isUnsettled(status.restore) ? { isOwed: true } : {};
        return { spec, status: { ...status, restore: { ...restore, ...owed } } };
      });
      return viewRestore(restore);
    }),
    handle(routes.cancelRestore, async (call) => {
      const app = await datastoreOf(deps, call, call.params.resource);
      const by = { app, name: principalOf(call).name, nowMs: now() };
      await changePlan(deps, app, call.signal, ({ spec, status }) => ({ spec, status: withdrawn(status, by) }));
    }),
    handle(routes.dismiss, async (call) => {
      const app = await datastoreOf(deps, call, call.params.resource);
      await changePlan(deps, app, call.signal, ({ spec, status: { restore, ...status } }) => {
        checkIdle(app, restore);
        return { spec, status };
      });
    }),
  ];
}

/** A moment of its own history, or of that of another which is the caller's as well. Throws `invalid` where that is not kept. */
async function momentOf(
  deps: Deps,
  call: Pick<CheckedCall, 'caller' | 'signal'>,
  app: AppResource,
  { at, from }: { at: string; from?: string | undefined },
): Promise<Pick<PendingRestore, 'at' | 'backupId' | 'from' | 'fromId'>> {
  const source = from === undefined ? app : await datastoreOf(deps, call, from);
  if (source.spec.datastore?.appliance !== app.spec.datastore?.appliance) {
    throw new FlynnError('invalid', `${source.spec.name} and ${app.spec.name} are not of the same kind`);
  }
  await recoveryOf(deps, source, Date.parse(at), call.signal);
  return momentAsked(source, Date.parse(at));
}

/** The app behind a resource that the caller sees, and may change. What somebody may not see is not there for them. */
export async function datastoreOf(
  deps: Deps,
  call: Pick<CheckedCall, 'caller' | 'signal'>,
  id: string,
  to: 'see' | 'change' = 'change',
): Promise<AppResource> {
  const { signal } = call;
  const principal = principalOf(call);
  const resource = await deps.resources.find(resourceType, id, { signal });
  if (resource === undefined || !isSeen(resource, await sightOf(deps, principal, signal))) {
    throw new FlynnError('not_found', `there is no resource "${id}"; list them with: flynn resource`);
  }
  if (to === 'change') await checkChange(deps, principal, resource, signal);
  const { externalId } = resource.status;
  const app = externalId === undefined ? undefined : await deps.resources.find(appType, externalId, { signal });
  if (app?.spec.datastore?.resourceId === resource.id) return app;
  throw new FlynnError('invalid', `the resource ${id} is no database of the platform's own: its provider backs it up`);
}

export async function planOf({ resources }: Deps, app: AppResource, signal: AbortSignal): Promise<BackupPlan> {
  const plan = await resources.find(backupPlanType, app.id, { signal });
  if (plan !== undefined) return plan;
  throw new FlynnError('unavailable', `${app.spec.name} is being made: ask again in a moment`);
}

async function findBackup(
  { resources }: Deps,
  app: AppResource,
  id: string,
  signal: AbortSignal,
): Promise<DatastoreBackupResource> {
  const found = await resources.find(datastoreBackupType, id, { signal });
  if (found?.owner?.id === app.id) return found;
  throw new FlynnError(
    'not_found',
    `${app.spec.name} has no backup "${id}"; list them with: flynn ${commandOf(app)} backup -a ${app.spec.name}`,
  );
}

async function completeBackup(
  deps: Deps,
  app: AppResource,
  id: string,
  signal: AbortSignal,
): Promise<{ digest: string; dumpBytes: number }> {
  const { digest, dumpBytes, state } = (await findBackup(deps, app, id, signal)).status;
  if (digest !== undefined && dumpBytes !== undefined && state === 'complete') return { digest, dumpBytes };
  throw new FlynnError('conflict', `the backup ${id} is ${state}: only one that is complete is of use`);
}

export async function changePlan(
  deps: Deps,
  app: AppResource,
  signal: AbortSignal,
  change: (plan: BackupPlan) => Pick<BackupPlan, 'spec' | 'status'>,
): Promise<BackupPlan> {
  try {
    return await deps.resources.change(backupPlanType, app.id, change, { signal });
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    return await planOf(deps, app, signal);
  }
}

function checkIdle(app: AppResource, restore: PendingRestore | undefined): void {
  if (restore === undefined || restore.state === 'complete' || restore.state === 'failed') return;
  throw new FlynnError(
    'conflict',
    `something is being put back into ${app.spec.name}: flynn ${commandOf(app)} backup -a ${app.spec.name} tells how far it is`,
  );
}
