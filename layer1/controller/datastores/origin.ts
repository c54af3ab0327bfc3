/**
 * A new datastore that begins with what another had at a moment. It is put into it as a backup is put back, before any app has it:
 * one that cannot be filled is given to nobody.
 */
import type { Appliance } from '@flynn/appliances/appliance';
import { FlynnError } from '@flynn/kit/errors';
import type { CheckedCall } from '@flynn/kit/http-handler';
import type { Compare } from '@flynn/store/store';
import { datastoreOf } from '../datastore-backups/handlers.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import type { BackupPlan } from '../datastore-backups/types.ts';
import { momentAsked, recoveryOf } from '../datastore-history/recovery.ts';
import type { Deps } from '../deps.ts';
import { resourceType } from '../providers/types.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import type { Origin } from './datastore.ts';

type Config = Readonly<Record<string, unknown>>;

/** What was asked for, with the resource that is meant. Throws for one that is not the caller's, and a moment that is not kept. */
export async function withOrigin<Asked extends Config>(
  deps: Deps,
  call: Pick<CheckedCall, 'caller' | 'signal'>,
  { config, appliance }: Readonly<{ config: Asked; appliance: Appliance }>,
): Promise<Asked> {
  const { from, at } = config;
  if (typeof from !== 'string' || typeof at !== 'string') return config;
  const apps = await deps.resources.list(appType, { signal: call.signal, where: ({ spec }) => spec.name === from });
  const app = await datastoreOf(deps, call, apps[0]?.spec.datastore?.resourceId ?? from);
  const atMs = Date.parse(at);
  const { appliance: kind } = app.spec.datastore ?? {};
  if (kind !== appliance.name) {
    throw new FlynnError(
      'invalid',
      `${app.spec.name} is of another kind (${kind}): ask ${kind} for it, and not ${appliance.name}`,
    );
  }
  if (Number.isNaN(atMs)) throw new FlynnError('invalid', `at=${at}: write a time like 2030-01-31T12:00:00Z`);
  await recoveryOf(deps, app, atMs, call.signal);
  return { ...config, from: app.spec.datastore?.resourceId ?? from, at: new Date(atMs).toISOString() };
}

/** Undefined once it has all of it, else what it waits for. */
export async function fill(
  { resources, now }: Deps,
  app: AppResource,
  { from, at }: Origin,
  { signal, epoch }: { signal: AbortSignal; epoch?: Compare },
): Promise<string | undefined> {
  const plan = await resources.find(backupPlanType, app.id, { signal });
  if (plan === undefined) return `${app.spec.name} to be looked after`;
  const { restore } = plan.status;
  if (restore?.state === 'complete') return undefined;
  if (restore?.state === 'failed') {
    throw new FlynnError('invalid', `${app.spec.name} could not be filled: ${restore.error ?? 'it failed'}`);
  }
  if (restore !== undefined) return `what there was at ${at} to be in ${app.spec.name}`;
  const fromId = (await resources.find(resourceType, from, { signal }))?.status.externalId;
  const source = fromId === undefined ? undefined : await resources.find(appType, fromId, { signal });
  if (source === undefined) throw new FlynnError('invalid', `the database that it was to begin with is gone (${from})`);
  const nowMs = now();
  const wanted = { state: 'wanted', ...momentAsked(source, Date.parse(at)), wantedMs: nowMs } as const;
  await resources.updateStatus(
    backupPlanType,
    app.id,
    ({ status }): BackupPlan['status'] => ({
      ...status,
      restore: status.restore ?? { ...wanted, attempt: 0, nextMs: nowMs },
    }),
    { signal, also: () => ({ compare: epoch === undefined ? [] : [epoch] }) },
  );
  return `what there was at ${at} to be in ${app.spec.name}`;
}
