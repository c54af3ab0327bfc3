/** `flynn pg backup`, `flynn redis backup`: how a database of the platform's own is backed up, and what is put back into it. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { datastoreBackups } from '@flynn/controller/datastore-backups/api';
import { makerText } from '@flynn/controller/datastore-backups/model';
import type { DatastoreBackup, DatastoreBackups, DatastoreSchedule } from '@flynn/controller/datastore-backups/model';
import { FlynnError } from '@flynn/kit/errors';
import { parseTime, usageError } from '../arguments.ts';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import { followBackup, wholeMs } from '../datastores/dumps.ts';
import type { DatastoreKind } from '../datastores/kinds.ts';
import { datastoreOf } from '../datastores/target.ts';
import { untilInterrupted } from '../interruption.ts';
import { formatCount, formatSize, formatTable } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { saveWhole } from '../transfer.ts';
import { addCommand, type Parent } from './command.ts';
import { awaitKept } from './pg-history.ts';

type Target = { resource?: string };
type Restore = NonNullable<DatastoreBackups['restore']>;
const resource = ['--resource <name>', 'of several that the app has: the name or the id'] as const;
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
  addRestore(parent, backup, kind);
  addCancel(parent, backup, kind);
  addDelete(parent, backup, kind);
  addSchedule(parent, backup, kind);
}

async function showBackups(context: Context, kind: DatastoreKind, named: string | undefined): Promise<number> {
  const client = await context.client();
  const { params } = await targetOf(context, kind, named);
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
      const { name, params } = await targetOf(context, kind, named);
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
      const { name, params } = await targetOf(context, kind, named);
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

function addRestore(parent: Parent, backup: Command, kind: DatastoreKind): void {
  const command = `flynn ${kind.command} backup restore`;
  const example = `${command} 20300131T031700Z-k3v9 -a shop`;
  const yes = ['-y, --yes', 'do not ask'] as const;
  if (kind.hasHistory) {
    addCommand<Target & { yes?: boolean; at?: string }>(parent, {
      under: backup,
      name: 'restore',
      summary: 'put a backup, or what there was at a moment, in the place of all that is in the database',
      arguments: [['[id]', 'as "backup" shows it']],
      options: {
        resource,
        at: [
          '--at <time>',
          'what there was then ("flynn pg history"): 10m, 2h, or 2030-01-31T12:00:00Z; UTC without a zone',
        ],
        yes,
      },
      examples: [example, `${command} --at 10m -a shop`],
      async run(context, { resource: named, yes: isSure = false, at }, [id]) {
        if ((id === undefined) === (at === undefined)) throw usageError('say which backup, or --at which moment');
        const what = at === undefined ? { backup: id ?? '' } : { at: parseTime(at, Date.now()) };
        return restore(context, kind, { named, isSure, what });
      },
    });
  } else {
    addCommand<Target & { yes?: boolean }>(parent, {
      under: backup,
      name: 'restore',
      summary: 'put a backup in the place of all that is in the database; where that fails nothing changes',
      arguments: [backupArgument],
      options: { resource, yes },
      examples: [example],
      run: (context, { resource: named, yes: isSure = false }, [id = '']) =>
        restore(context, kind, { named, isSure, what: { backup: id } }),
    });
  }

  addCommand<Target>(parent, {
    under: backup,
    name: 'dismiss',
    summary: 'after the cluster came back: leave the database as it is, and back that up from now on',
    options: { resource },
    async run(context, { resource: named }) {
      const client = await context.client();
      const { name, params } = await targetOf(context, kind, named);
      await client.call(datastoreBackups.dismiss, { params });
      context.show({ datastore: name }, () => `${name} stays as it is, and is backed up as it is.`);
    },
  });
}

/** To its end. */
async function restore(
  context: Context,
  kind: DatastoreKind,
  { named, isSure, what }: { named: string | undefined; isSure: boolean; what: { backup: string } | { at: string } },
): Promise<number> {
  const client = await context.client();
  const { name, params } = await targetOf(context, kind, named);
  if ('at' in what) await awaitKept(context, params, what.at);
  if (!isSure) {
    const by = 'at' in what ? `what there was at ${what.at}` : what.backup;
    const doing = `replacing all that is in ${name} by ${by}`;
    await confirmByTyping(context.io, { doing, word: name, called: 'its name', kept: 'nothing was replaced' });
  }
  await client.call(datastoreBackups.restore, { params, body: what });
  let text = `restoring ${name}`;
  const wanted = 'at' in what ? what.at : what.backup;
  const ended = await context.progress(
    () => text,
    () =>
      pollUntil(
        async () => {
          const { restore: found } = await client.call(datastoreBackups.list, { params });
          text = restoringText(name, found ?? {});
          if (found === undefined) return 'withdrawn';
          if ((found.at ?? found.backupId) !== wanted) return 'replaced';
          return found.state === 'complete' || found.state === 'failed' ? found : undefined;
        },
        { what: `the end of the restore of ${name}`, deadlineMs: wholeMs, intervalMs: 500 },
      ),
  );
  if (ended === 'withdrawn') {
    throw new FlynnError('conflict', `the restore of ${name} was withdrawn before it began: nothing was replaced`);
  }
  if (ended === 'replaced') {
    const look = `flynn ${kind.command} backup -a ${name}`;
    throw new FlynnError('conflict', `this restore of ${name} was withdrawn, or another has its place: ${look} tells`);
  }
  context.show(ended, () => restoreText(name, ended));
  return ended.state === 'complete' ? 0 : 1;
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
      const { name, params } = await targetOf(context, kind, named);
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
      const { name, params } = await targetOf(context, kind, named);
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
      const { name, params } = await targetOf(context, kind, named);
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
      const { name, params } = await targetOf(context, kind, named);
      await client.call(datastoreBackups.unschedule, { params });
      context.show({ schedule: null }, () => `${name} is backed up by hand from now on, and with the cluster.`);
    },
  });
}

async function targetOf(
  context: Context,
  kind: DatastoreKind,
  named: string | undefined,
): Promise<{ name: string; params: { resource: string } }> {
  const { name, datastore } = await datastoreOf(context, kind, named);
  return { name, params: { resource: datastore?.resourceId ?? '' } };
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

function restoringText(name: string, { waitsFor, sentBytes = 0 }: Partial<Restore>): string {
  return `restoring ${name}: ${waitsFor === undefined ? formatSize(sentBytes) : `waits for ${waitsFor}`}`;
}

function backupText(name: string, { id, state, dumpBytes = 0, error = 'nobody knows why' }: DatastoreBackup): string {
  if (state === 'complete') return `${id}: ${name}, ${formatSize(dumpBytes)}`;
  return `${name} could not be backed up${state === 'retrying' ? ', and is tried again' : ''}: ${error}`;
}

function restoreText(
  name: string,
  { state, backupId, at, from, by, isOwed = false, endedAt = '', sentBytes = 0, error, waitsFor }: Restore,
): string {
  const whose = from === undefined || from === name ? '' : ` in ${from}`;
  const moment = at === undefined ? undefined : `what there was at ${at}${whose}`;
  const what = moment ?? backupId ?? 'what it had when the cluster was backed up';
  const who = by === undefined ? '' : `, by ${by}`;
  if (state === 'complete') return `Restored ${name} to ${what} at ${endedAt}${who}.`;
  if (state === 'running') return `${what} is being put back into ${name}${who}: ${formatSize(sentBytes)}`;
  const waits = waitsFor === undefined ? '' : `, and waits for ${waitsFor}`;
  if (state !== 'failed') return `${what} is about to be put back into ${name}${who}${waits}`;
  const next = isOwed ? '\n  "restore ID" puts one back, "dismiss" leaves it as it is' : '';
  return `${what} could not be put back into ${name}${who}: ${error ?? 'nobody knows why'}${next}`;
}
