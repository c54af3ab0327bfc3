/**
 * Of the stage in which apps go live the first part: datastores do, with empty volumes, and what was in them is put back, before
 * any app would meet them empty. The controller's worker puts it back: see datastore-backups/putting-back.ts. May be broken off and
 * repeated.
 */
import { type Clock, systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import type { ResourceService } from '@flynn/resource/service';
import type { Store } from '@flynn/store/store';
import { begunMs } from '../datastore-backups/lanes.ts';
import { isUnsettled } from '../datastore-backups/plan.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import type { BackupPlan } from '../datastore-backups/types.ts';
import { commandOf } from '../datastores/lookup.ts';
import { appType } from '../resources.ts';
import { claimStore } from './restore-state.ts';
import { eachRecord, goLive, resourcesOf } from './restore.ts';
import type { Images, Live, Options, RestoreSource } from './restore.ts';

/** What could not be put back, by the datastore's name; `command` of `flynn` tells more of it. */
export type Unrestored = Readonly<{ datastore: string; command: string; error: string }>;

const lookMs = 1_000;
/** The worker has deadlines of its own: one that does nothing at all is away. A database builds its indexes without a word. */
const quietMs = { wanted: begunMs, running: 12 * 3_600_000 } as const;

/** Undefined if that was done before. `timeout` if nobody puts anything back. */
export async function restoreDatastores(
  store: Store,
  source: RestoreSource,
  options: Options & Images & { clock?: Clock },
): Promise<{ count: number; failed: Unrestored[] } | undefined> {
  const claim = await claimStore(store, source.digest, options);
  if (claim.state.stage !== 'apps') return undefined;
  const resources = resourcesOf(store, options);
  const live: Live[] = [];
  await eachRecord(source, options, async (record) => {
    if (record.live?.isDatastore === true) live.push(record.live);
  });
  for (const one of live) await goLive(resources, one, options);
  await begin(resources, options);
  const plans = await untilSettled(resources, options);
  const failed = await failedOf(resources, plans, options);
  return { count: plans.length - failed.length, failed };
}

/** Of a cluster that came back: what nobody has put back since, or said they do without. */
export async function unrestoredIn(store: Store, options: Options): Promise<Unrestored[]> {
  const where = ({ status: { restore } }: BackupPlan): boolean => isUnsettled(restore);
  const resources = resourcesOf(store, options);
  return failedOf(resources, await resources.list(backupPlanType, { signal: options.signal, where }), options);
}

async function failedOf(
  resources: ResourceService,
  plans: readonly BackupPlan[],
  { signal }: Pick<Options, 'signal'>,
): Promise<Unrestored[]> {
  const failed = plans.filter(({ status }) => status.restore?.state === 'failed');
  return Promise.all(
    failed.map(async ({ id, spec: { datastore }, status: { restore } }) => {
      const app = await resources.find(appType, id, { signal });
      const command = app === undefined ? 'resource' : commandOf(app);
      return { datastore, command, error: restore?.error ?? 'it failed' };
    }),
  );
}

/** What people ask for meanwhile is not ours to wait for. */
function isOfCluster({ status: { restore } }: BackupPlan): boolean {
  return restore !== undefined && restore.by === undefined;
}

/** From now on members are waited for. Of one that ran nothing there is nothing to put back. */
async function begin(resources: ResourceService, { nowMs, signal }: Options): Promise<void> {
  const where = ({ status }: BackupPlan): boolean => status.restore?.state === 'waiting';
  for (const { id } of await resources.list(backupPlanType, { signal, where })) {
    const app = await resources.find(appType, id, { signal });
    const isLive = app?.deletingSince === undefined && app?.status.releaseId !== undefined;
    await resources.updateStatus(
      backupPlanType,
      id,
      ({ status: { restore, ...rest } }): BackupPlan['status'] => {
        if (restore === undefined || !isLive) return rest;
        return { ...rest, restore: { ...restore, state: 'wanted', wantedMs: nowMs, nextMs: nowMs } };
      },
      { signal },
    );
  }
}

async function untilSettled(
  resources: ResourceService,
  { signal, report, clock = systemClock }: Options & { clock?: Clock },
): Promise<BackupPlan[]> {
  let before = '';
  let sinceMs = clock.now();
  for (;;) {
    const plans = await resources.list(backupPlanType, { signal, where: isOfCluster });
    const open = plans.filter(({ status: { restore } }) => restore?.state === 'wanted' || restore?.state === 'running');
    if (open.length === 0) return plans;
    const told = JSON.stringify(open.map(({ id, status }) => [id, status.restore]));
    if (told !== before) sinceMs = clock.now();
    before = told;
    report?.(`${plans.length - open.length} of ${plans.length}; ${open.map(progressOf).join(', ')}`);
    const isRunning = open.some(({ status }) => status.restore?.state === 'running');
    if (clock.now() - sinceMs > quietMs[isRunning ? 'running' : 'wanted']) {
      const names = open.map(({ spec }) => spec.datastore).join(', ');
      throw new FlynnError(
        'timeout',
        `nobody puts back what was in ${names}: does the controller's worker run (flynn -a controller ps)? Go on with the same command`,
      );
    }
    await clock.sleep(lookMs, { signal });
  }
}

function progressOf({ spec, status: { restore } }: BackupPlan): string {
  if (restore?.state !== 'running') return `${spec.datastore}: waits for its members`;
  return `${spec.datastore}: ${Math.round((restore.sentBytes ?? 0) / 1024 ** 2)} MiB`;
}
