import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { nextTick, parseSchedule } from '../cron/schedule.ts';
import { askForAll, askForNew } from '../datastore-backups/asking.ts';
import type { Deps } from '../deps.ts';
import { backups } from './api.ts';
import { packArchive } from './archive.ts';
import { clusterIdOf, prepareBackup } from './export.ts';
import { targetText } from './model.ts';
import type { Backup, BackupScheduleView, TargetAddress } from './model.ts';
import { checkRestored } from './restore-state.ts';
import { backupScheduleType, backupType, scheduleId } from './resources.ts';
import type { BackupResource, BackupSchedule } from './resources.ts';
import { beginningOf } from './plan.ts';
import { clusterOf, giveUp } from './steps.ts';
import type { BackupBlobs } from './steps.ts';
import { targetAt } from './place.ts';

/** Somebody waits for the answer. */
const firstLookMs = 20_000;

export function backupHandlers(deps: Deps, blobs: BackupBlobs): Handler[] {
  const { resources, now } = deps;
  return [
    handle(backups.download, async ({ body, signal }) => {
      const { store, settings } = deps;
      const source = { store, blobs, settings, clusterId: clusterIdOf(deps), now };
      const { manifest, open } = await prepareBackup(source, { signal, ...body });
      return { body: packArchive(manifest, open) };
    }),
    handle(backups.dump, async ({ body: { only }, signal }) => {
      const asked = only === undefined ? await askForAll(deps, signal) : await askForNew(deps, signal, new Set(only));
      return asked.map(({ app: { spec }, backupId: backup, attempt, earlier }) => {
        const resource = spec.datastore?.resourceId ?? '';
        return { datastore: spec.name, resource, backup, attempt, earlier: [...earlier] };
      });
    }),
    handle(backups.list, async ({ signal }) => {
      const [schedule, made] = await Promise.all([
        resources.find(backupScheduleType, scheduleId, { signal }),
        resources.list(backupType, { signal }),
      ]);
      return {
        ...(schedule === undefined ? {} : { schedule: viewSchedule(schedule) }),
        backups: made.toSorted((a, b) => b.spec.tickMs - a.spec.tickMs).map(viewBackup),
      };
    }),
    handle(backups.run, async ({ signal }) => {
      await checkRestored(deps.store, { signal });
      const made = await resources.list(backupType, { signal });
      const after = made
        .map(({ id }) => id)
        .toSorted()
        .at(-1);
      const isWanted = ({ status }: BackupSchedule) => ({ ...status, isWanted: true });
      await resources.updateStatus(backupScheduleType, scheduleId, isWanted, { signal }).catch(noSchedule);
      return after === undefined ? {} : { after };
    }),
    handle(backups.schedule, async ({ body, signal }) => {
      const { schedule, timezone, keep, passphrase } = body;
      parseSchedule(schedule, timezone);
      const place = 's3' in body.to ? body.to : { ...body.to, host: body.to.host ?? onlyHost(deps) };
      // Whoever says it is told now that it cannot be, and not by the first backup that is missing.
      await targetAt(deps.hosts, place, { patienceMs: firstLookMs }).list(beginningOf(clusterOf(deps)), signal);
      const to = 's3' in place ? place : await withMount(deps, place, signal);
      const spec = {
        schedule,
        ...(timezone === undefined ? {} : { timezone }),
        to,
        keep,
        ...(passphrase === undefined ? {} : { secret: passphrase }),
      };
      const set = await putSchedule(deps, spec, signal);
      await giveUp(deps, isRetrying, { signal });
      return viewSchedule(set);
    }),
    handle(backups.unschedule, async ({ signal }) => {
      await resources.delete(backupScheduleType, scheduleId, { signal }).catch(noSchedule);
      await giveUp(deps, isRetrying, { signal });
    }),
  ];
}

async function withMount(
  { hosts }: Deps,
  place: { host: string; directory: string },
  signal: AbortSignal,
): Promise<TargetAddress> {
  const mount = await hosts.mountOf(place.host, place.directory, signal);
  return mount === undefined ? place : { ...place, mount };
}

/** Its ticks count from now on. */
async function putSchedule(deps: Deps, spec: BackupSchedule['spec'], signal: AbortSignal): Promise<BackupSchedule> {
  const { resources } = deps;
  const known = await resources.find(backupScheduleType, scheduleId, { signal });
  if (known === undefined) {
    const status = { handledMs: deps.now() };
    return resources.create(backupScheduleType, { id: scheduleId, spec, status }, { signal });
  }
  return resources.change(
    backupScheduleType,
    scheduleId,
    ({ status: { lastSuccess } }) => ({
      spec,
      status: { handledMs: deps.now(), ...(lastSuccess === undefined ? {} : { lastSuccess }) },
    }),
    { signal },
  );
}

/** Of the schedule before. */
function isRetrying({ status }: BackupResource): boolean {
  return status.state === 'retrying';
}

function onlyHost({ cell }: Deps): string {
  const ids = [...cell.hosts.snapshot.entries.keys()].toSorted();
  const [only] = ids;
  if (only !== undefined && ids.length === 1) return only;
  throw new FlynnError('invalid', `which host has the directory? Name it: ${ids.join(', ')}`);
}

function noSchedule(error: unknown): never {
  if (!hasCode(error, 'not_found')) throw error;
  throw new FlynnError(
    'not_found',
    'backups have no schedule yet: flynn cluster backup schedule "0 3 * * *" --to dir:/path sets one; flynn cluster backup writes one here',
  );
}

function viewSchedule({ spec, status }: BackupSchedule): BackupScheduleView {
  const { schedule, timezone, to, keep, secret } = spec;
  const next = nextTick(parseSchedule(schedule, timezone), status.handledMs);
  return {
    schedule,
    ...(timezone === undefined ? {} : { timezone }),
    to: targetText(to),
    keep,
    isEncrypted: secret !== undefined,
    ...(next === undefined ? {} : { nextAt: new Date(next).toISOString() }),
    ...(status.lastSuccess === undefined ? {} : { lastSuccess: status.lastSuccess }),
    ...(status.failure === undefined ? {} : { failure: status.failure }),
  };
}

function viewBackup({ id, spec, status }: BackupResource): Backup {
  return { id, file: spec.file, to: spec.to, ...status };
}
