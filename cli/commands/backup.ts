import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { backups } from '@flynn/controller/backup/api';
import { checkPassphrase, decrypted, encrypted } from '@flynn/controller/backup/encryption';
import { type Inspection, inspectArchive } from '@flynn/controller/backup/inspection';
import type { Backup, BackupScheduleView } from '@flynn/controller/backup/model';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { formatCount, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const passphraseOption = [
  '--passphrase-file <file>',
  'what it is encrypted with, - for standard input (else: $FLYNN_BACKUP_PASSPHRASE)',
] as const;
/** Everything is read twice before the first byte comes. */
const preparingMs = 15 * 60_000;
/** A first look, and an end, of one that is large. */
const runMs = 12 * 60 * 60_000;

/** Under `flynn cluster`. */
export function addBackupCommands(parent: Parent, cluster: Command): void {
  const backup = addCommand<{ output?: string; skipMissing?: boolean; passphraseFile?: string }>(parent, {
    under: cluster,
    name: 'backup',
    summary: 'everything people made on the cluster, and its keys, as one file; it goes on running meanwhile',
    options: {
      output: ['-o, --output <file>', 'the file, - for standard output; else CLUSTER-TIME.backup'],
      skipMissing: ['--skip-missing', 'leave out what the blob store lacks, rather than fail'],
      passphraseFile: passphraseOption,
    },
    examples: ['flynn cluster backup -o /mnt/backups/today.backup', 'flynn cluster backup verify today.backup'],
    async run(context, { output, skipMissing = false, passphraseFile }) {
      const passphrase = await passphraseOf(context, passphraseFile);
      const { name } = await context.cluster();
      const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '');
      const body = { mayMiss: skipMissing };
      const client = await context.client();
      const read = async (): Promise<AsyncIterable<Uint8Array>> => {
        const plain = await client.stream(backups.download, { body }, { timeoutMs: preparingMs });
        return passphrase === undefined ? plain : encrypted(plain, passphrase);
      };
      if (output === '-') return pipeline(await read(), context.io.stdout, { end: false });
      const file = resolve(context.io.cwd, output ?? `${name}-${time}Z.backup`);
      const found = await context.progress('backing up', async () => saveChecked(await read(), file, passphrase));
      show(context, file, found);
      if (passphrase !== undefined) return;
      context.io.stderr.write(
        'It holds all secrets and keys of the cluster, in clear: keep it as you keep a password, or encrypt it with --passphrase-file.\n',
      );
    },
  });

  addCommand<{ passphraseFile?: string }>(parent, {
    under: backup,
    name: 'verify',
    summary: 'read a backup from end to end and compare everything; needs no cluster',
    arguments: [['<file>', 'what "flynn cluster backup" wrote']],
    options: { passphraseFile: passphraseOption },
    async run(context, { passphraseFile }, [name = '']) {
      const file = resolve(context.io.cwd, name);
      const passphrase = await passphraseOf(context, passphraseFile);
      show(context, file, await context.progress('reading', () => inspectFile(file, passphrase)));
    },
  });
  addScheduleCommands(parent, backup);
}

type ScheduleOptions = { to?: string; host?: string; keep?: string; timezone?: string; passphraseFile?: string };

function addScheduleCommands(parent: Parent, backup: Command): void {
  addCommand<ScheduleOptions>(parent, {
    under: backup,
    name: 'schedule',
    summary: 'have the cluster back itself up; what was said before is replaced',
    arguments: [['<schedule>', 'as a crontab has it: "0 3 * * *"']],
    options: {
      to: ['--to <place>', 'dir:/PATH, a directory that is there on a host'],
      host: ['--host <host>', 'the host; may be left out where there is one'],
      keep: ['--keep <count>', 'so many of the newest, older ones are removed (default: 14)'],
      timezone: ['--timezone <zone>', 'as Europe/Berlin (default: UTC)'],
      passphraseFile: passphraseOption,
    },
    examples: ['flynn cluster backup schedule "0 3 * * *" --to dir:/mnt/backups --host h1 --passphrase-file secret'],
    async run(context, { to = '', host, keep, timezone, passphraseFile }, [schedule = '']) {
      const directory = /^dir:(\/.*)$/.exec(to)?.[1];
      if (directory === undefined) throw usageError(`"${to}" is no place for backups: write --to dir:/PATH`);
      if (keep !== undefined && !/^[1-9]\d{0,3}$/.test(keep))
        throw usageError(`--keep ${keep}: write a count from 1 to 1000`);
      const passphrase = await passphraseOf(context, passphraseFile);
      const client = await context.client();
      const set = await client.call(backups.schedule, {
        body: {
          schedule,
          to: { directory, ...(host === undefined ? {} : { host }) },
          ...(keep === undefined ? {} : { keep: Number(keep) }),
          ...(timezone === undefined ? {} : { timezone }),
          ...(passphrase === undefined ? {} : { passphrase }),
        },
      });
      context.show(set, () => scheduleText(set));
    },
  });

  addCommand(parent, {
    under: backup,
    name: 'unschedule',
    summary: 'the cluster backs itself up no more; what was made stays',
    async run(context) {
      const client = await context.client();
      await client.call(backups.unschedule, {});
      context.show({ schedule: null }, () => 'backups are made by hand from now on');
    },
  });

  addCommand(parent, {
    under: backup,
    name: 'list',
    summary: 'when the cluster backs itself up, and how that went; exit code 1 while it fails',
    async run(context) {
      const client = await context.client();
      const found = await client.call(backups.list, {});
      const { schedule } = found;
      context.show(found, () => listText(found));
      return schedule?.failure === undefined ? 0 : 1;
    },
  });

  addCommand(parent, {
    under: backup,
    name: 'run',
    summary: 'make one now, to where the schedule has them, and wait for its end',
    async run(context) {
      const client = await context.client();
      const { after = '' } = await client.call(backups.run, {});
      const ended = await context.progress('backing up', () =>
        waitFor(
          async () => {
            const all = (await client.call(backups.list, {})).backups;
            return all.find(({ id, state }) => id > after && state !== 'running');
          },
          { what: 'the end of the backup', deadlineMs: runMs, intervalMs: 500 },
        ),
      );
      context.show(ended, () => backupText(ended));
      return ended.state === 'complete' ? 0 : 1;
    },
  });
}

function listText({
  schedule,
  backups: made,
}: {
  schedule?: BackupScheduleView | undefined;
  backups: readonly Backup[];
}): string {
  const table = formatTable(
    ['STARTED', 'STATE', 'SIZE', 'FILE', 'ERROR'],
    made.map((one) => [
      one.startedAt,
      one.state,
      one.sizeBytes === undefined ? '' : mebibytes(one.sizeBytes),
      one.file,
      one.error,
    ]),
  );
  const head = schedule === undefined ? 'no schedule: flynn cluster backup schedule sets one' : scheduleText(schedule);
  return made.length === 0 ? head : `${head}\n\n${table}`;
}

function scheduleText({
  schedule,
  timezone = 'UTC',
  to,
  keep,
  isEncrypted,
  nextAt,
  lastSuccess,
  failure,
}: BackupScheduleView): string {
  return [
    `"${schedule}" (${timezone}) to ${to}, the newest ${keep} are kept, ${isEncrypted ? 'encrypted' : 'in clear'}`,
    ...(nextAt === undefined ? [] : [`next: ${nextAt}`]),
    lastSuccess === undefined
      ? 'last success: never'
      : `last success: ${lastSuccess.at}, ${lastSuccess.file}, ${mebibytes(lastSuccess.sizeBytes)}`,
    ...(failure === undefined
      ? []
      : [`failing since ${failure.since} (${formatCount(failure.count, 'attempt')}): ${failure.message}`]),
  ].join('\n');
}

function backupText({ file, to, state, sizeBytes = 0, attempt, error }: Backup): string {
  if (state === 'complete') return `${to}/${file}: ${mebibytes(sizeBytes)}`;
  return `${file} could not be made (attempt ${attempt}): ${error ?? 'nobody knows why'}`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

/** What has the name is whole: it was read back from the disk. */
async function saveChecked(
  body: AsyncIterable<Uint8Array>,
  file: string,
  passphrase: string | undefined,
): Promise<Inspection> {
  const partial = `${file}.part`;
  try {
    // What a kill left behind may be readable for others.
    await rm(partial, { force: true });
    await pipeline(body, createWriteStream(partial, { mode: 0o600, flags: 'wx', flush: true }));
    const found = await inspectFile(partial, passphrase);
    await rename(partial, file);
    await using folder = await open(dirname(file), 'r');
    await folder.sync();
    return found;
  } catch (error) {
    if (error instanceof FlynnError || !hasErrno(error, 'ENOENT', 'EACCES', 'ENOSPC', 'EISDIR', 'EROFS')) throw error;
    throw new FlynnError('invalid', `cannot write ${file}: ${messageOf(error)}`, { cause: error });
  } finally {
    await rm(partial, { force: true });
  }
}

async function inspectFile(file: string, passphrase: string | undefined): Promise<Inspection> {
  try {
    return await inspectArchive(decrypted(createReadStream(file), passphrase));
  } catch (error) {
    const code = error instanceof FlynnError ? error.code : 'not_found';
    throw new FlynnError(code, `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

function show(context: Context, file: string, found: Inspection): void {
  const { manifest, digest, records, blobs, sizeBytes } = found;
  const count = (type: string): number => records[`records/${type}.ndjson`] ?? 0;
  const { madeAt, cluster, platformVersion, missing } = manifest;
  const shown = { file, digest, madeAt, cluster, platformVersion, records, blobs, sizeBytes, missing };
  const things = [
    formatCount(count('app'), 'app'),
    formatCount(count('release'), 'release'),
    formatCount(count('user'), 'user'),
    formatCount(blobs, 'blob'),
    mebibytes(sizeBytes),
  ].join(', ');
  const lacks =
    missing.length === 0 ? '' : `\n  ${formatCount(missing.length, 'blob')} left out: the blob store lacked them`;
  context.show(shown, () => `${file}: whole\n  ${things}, of ${cluster.name} (${cluster.domain}) at ${madeAt}${lacks}`);
}

/** In a file or the environment, never on the command line, which others see. */
async function passphraseOf({ io }: Context, file: string | undefined): Promise<string | undefined> {
  const text = file === undefined ? io.env['FLYNN_BACKUP_PASSPHRASE'] : await readNamed(io, file);
  return text === undefined ? undefined : checkPassphrase(text);
}
