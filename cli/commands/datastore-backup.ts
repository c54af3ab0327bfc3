/** `flynn pg backup`, `flynn redis backup`: how a database of the platform's own is backed up. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { datastoreBackups } from '@flynn/controller/datastore-backups/api';
import { makerText } from '@flynn/controller/datastore-backups/model';
import type { DatastoreBackup, DatastoreBackups, DatastoreSchedule } from '@flynn/controller/datastore-backups/model';
import { FlynnError } from '@flynn/kit/errors';
import { usageError } from '../arguments.ts';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import { followBackup } from '../datastores/dumps.ts';
import type { DatastoreKind } from '../datastores/kinds.ts';
import { resource, resourceOf, type Target } from '../datastores/target.ts';
import { untilInterrupted } from '../interruption.ts';
import { formatCount, formatSize, formatTable } from '../output.ts';
import { saveWhole } from '../transfer.ts';
import { addCommand, type Parent } from './command.ts';
import { addDatastoreRestoreCommands, restoreText } from './datastore-restore.ts';

const backupArgument = ['<id>', 'as "backup" shows it'] as const;

const beginMs = 90_000;

/** Under the command of its kind. */
export function addDatastoreBackupCommands(parent: Parent, under: Command, kind: DatastoreKind): void {
  const command = `flynn ${kind.command} backup`;
  const backup = addCommand<Target>(parent, {
    under,
    name: 'backup',
    summary: 'backups of the database: when, how large, by whom; exit code 1 while they fail',
    options: { resource },
    examples: [`${command} -a shop`, `${command} run -a shop`, `${command} schedule "0 */6 * * *" --keep 28`],
    lists: true,
    run: (context, { resource: named }) => showBackups(context, kind, named),
  });
  addRun(parent, backup, kind);
  addDownload(parent, backup, kind);
  addDatastoreRestoreCommands(parent, backup, kind);
  addCancel(parent, backup, kind);
  addDelete(parent, backup, kind);
  addSchedule(parent, backup, kind);
}

async function showBackups(context: Context, kind: DatastoreKind, named: string | undefined): Promise<number> {
  const client = await context.client();
  const { params } = await resourceOf(context, kind, named);
  const found = await client.call(datastoreBackups.list, { params });
  context.show(found, () => listText(kind, found));
  return found.failure === undefined && found.restore?.state !== 'failed' ? 0 : 1;
}

function addRun(parent: Parent, backup: Command, kind: DatastoreKind): void {
  addCommand<Target>(parent, {
    under: backup,
    name: 'run',
    summary: 'make one now, and wait for its end',
    options: { resource },
    async run(context, { resource: named }) {
      const client = await context.client();
      const { name, params } = await resourceOf(context, kind, named);
      const asked = await client.call(datastoreBackups.run, { params });
      let text = backingUpText(name, asked);
      const ended = await context.progress(
        () => text,
        () =>
          followBackup(client, { ...params, backup: asked.id, attempt: asked.attempt }, (now) => {
            text = backingUpText(name, now);
          }),
      );
      context.show(ended, () => backupText(name, ended));
      return ended.state === 'complete' ? 0 : 1;
    },
  });
}

function addDownload(parent: Parent, backup: Command, kind: DatastoreKind): void {
  addCommand<Target & { output?: string }>(parent, {
    under: backup,
    name: 'download',
    summary: `a backup as a file, decrypted: what "flynn ${kind.command} restore" reads`,
    arguments: [backupArgument],
    options: { resource, output: ['-o, --output <file>', `the file; else NAME-ID.${kind.dumpEnding}`] },
    async run(context, { resource: named, output }, [id = '']) {
      const client = await context.client();
      const { name, params } = await resourceOf(context, kind, named);
      const file = resolve(context.io.cwd, output ?? `${name}-${id}.${kind.dumpEnding}`);
      const known = (await client.call(datastoreBackups.list, { params })).backups.find((one) => one.id === id);
      let bytes = 0;
      await context.progress(
        () => `downloading ${id}: ${formatSize(bytes)}`,
        () =>
          untilInterrupted(context.io, 'stopped: no file was written', async (signal) => {
            const at = { params: { ...params, backup: id } };
            const body = await client.stream(datastoreBackups.download, at, { signal, timeoutMs: beginMs });
            const counted = async function* (): AsyncGenerator<Uint8Array> {
              for await (const chunk of body) {
                bytes += chunk.length;
                yield chunk;
              }
              if (bytes === known?.dumpBytes) return;
              throw new FlynnError('unavailable', `${bytes} of ${known?.dumpBytes ?? 0} bytes came: ask again`);
            };
            await saveWhole(file, counted, { signal });
          }),
      );
      context.show({ file, sizeBytes: bytes }, () => `${file}: ${name} as of ${id}, ${formatSize(bytes)}`);
    },
  });
}

function addCancel(parent: Parent, backup: Command, kind: DatastoreKind): void {
  const command = `flynn ${kind.command} backup cancel`;
  addCommand<Target>(parent, {
    under: backup,
    name: 'cancel',
    summary: 'end a backup that is under way, or withdraw a restore that has not begun',
    arguments: [['[id]', 'of the backup, or of what is to be put back; without it: whatever is to be put back']],
    options: { resource },
    examples: [`${command} 20300131T031700Z-k3v9 -a shop`, `${command} -a shop`],
    async run(context, { resource: named }, [id]) {
      const client = await context.client();
      const { name, params } = await resourceOf(context, kind, named);
      const { restore: found, backups } = await client.call(datastoreBackups.list, { params });
      const isOpen = ({ state }: { state: string }) => state !== 'complete' && state !== 'failed';
      const isToBePutBack = found !== undefined && isOpen(found);
      const underWay = backups.find(isOpen);
      if (id === undefined && !isToBePutBack && underWay !== undefined) {
        throw new FlynnError(
          'invalid',
          `nothing waits to be put back into ${name}; a backup is under way: "${command} ${underWay.id} -a ${name}" ends it`,
        );
      }
      if (id === undefined || (isToBePutBack && found.backupId === id)) {
        await client.call(datastoreBackups.cancelRestore, { params });
        context.show({ datastore: name }, () => `Withdrawn: nothing is put back into ${name}.`);
        return;
      }
      await client.call(datastoreBackups.cancel, { params: { ...params, backup: id } });
      context.show({ id }, () => `Cancelled ${id} of ${name}: nothing of it is kept.`);
    },
  });
}

function addDelete(parent: Parent, backup: Command, kind: DatastoreKind): void {
  addCommand<Target & { yes?: boolean }>(parent, {
    under: backup,
    name: 'delete',
    summary: 'delete a backup',
    arguments: [backupArgument],
    options: { resource, yes: ['-y, --yes', 'do not ask'] },
    async run(context, { resource: named, yes = false }, [id = '']) {
      const client = await context.client();
      const { name, params } = await resourceOf(context, kind, named);
      if (!yes) {
        const doing = `deleting the backup ${id} of ${name}`;
        await confirmByTyping(context.io, { doing, word: name, called: 'its name', kept: 'nothing was deleted' });
      }
      await client.call(datastoreBackups.remove, { params: { ...params, backup: id } });
      context.show({ id }, () => `Deleted ${id} of ${name}.`);
    },
  });
}

function addSchedule(parent: Parent, backup: Command, kind: DatastoreKind): void {
  addCommand<Target & { keep?: string; timezone?: string }>(parent, {
    under: backup,
    name: 'schedule',
    summary: 'have it backed up by itself; what was said before is replaced',
    arguments: [['<schedule>', 'as a crontab has it: "0 3 * * *"']],
    options: {
      resource,
      keep: ['--keep <count>', 'so many of the newest, older ones go (default: as it is, 7 at first)'],
      timezone: ['--timezone <zone>', 'as Europe/Berlin (default: UTC)'],
    },
    async run(context, { resource: named, keep, timezone }, [schedule = '']) {
      if (keep !== undefined && !/^[1-9]\d{0,2}$/.test(keep)) {
        throw usageError(`--keep ${keep}: write a count from 1 to 999`);
      }
      const client = await context.client();
      const { name, params } = await resourceOf(context, kind, named);
      const set = await client.call(datastoreBackups.schedule, {
        params,
        body: {
          schedule,
          ...(keep === undefined ? {} : { keep: Number(keep) }),
          ...(timezone === undefined ? {} : { timezone }),
        },
      });
      context.show(set, () => `${name}: ${scheduleText(kind.command, set)}`);
    },
  });

  addCommand<Target>(parent, {
    under: backup,
    name: 'unschedule',
    summary: 'have it backed up only when somebody asks, and with the cluster; what was made stays',
    options: { resource },
    async run(context, { resource: named }) {
      const client = await context.client();
      const { name, params } = await resourceOf(context, kind, named);
      await client.call(datastoreBackups.unschedule, { params });
      context.show({ schedule: null }, () => `${name} is backed up by hand from now on, and with the cluster.`);
    },
  });
}

function listText(
  { command }: DatastoreKind,
  { datastore, schedule, restore, failure, backups }: DatastoreBackups,
): string {
  const table = formatTable(
    ['ID', 'STATE', 'ENDED', 'SIZE', 'BY', 'ERROR'],
    backups.map((one) => [
      one.id,
      one.state,
      one.endedAt,
      one.dumpBytes === undefined ? undefined : formatSize(one.dumpBytes),
      makerText(one.by),
      one.error,
    ]),
  );
  const head = [
    `${datastore}: ${scheduleText(command, schedule)}`,
    ...(failure === undefined
      ? []
      : [`failing since ${failure.since} (${formatCount(failure.count, 'backup')}): ${failure.message}`]),
    ...(restore === undefined ? [] : [restoreText(datastore, restore)]),
  ].join('\n');
  return backups.length === 0
    ? `${head}\nthere is none yet: flynn ${command} backup run -a ${datastore}`
    : `${head}\n\n${table}`;
}

function scheduleText(command: string, { schedule, timezone = 'UTC', keep, nextAt }: DatastoreSchedule): string {
  if (schedule === undefined) return `no schedule: "flynn ${command} backup schedule" sets one`;
  return `"${schedule}" (${timezone}), the newest ${keep} are kept${nextAt === undefined ? '' : `, next: ${nextAt}`}`;
}

function backingUpText(name: string, { state, dumpBytes = 0 }: DatastoreBackup): string {
  return state === 'running'
    ? `backing up ${name}: ${formatSize(dumpBytes)}`
    : `the backup of ${name} waits for its turn`;
}

function backupText(name: string, { id, state, dumpBytes = 0, error = 'nobody knows why' }: DatastoreBackup): string {
  if (state === 'complete') return `${id}: ${name}, ${formatSize(dumpBytes)}`;
  return `${name} could not be backed up${state === 'retrying' ? ', and is tried again' : ''}: ${error}`;
}
