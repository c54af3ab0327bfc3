import { createReadStream, createWriteStream } from 'node:fs';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { backups } from '@flynn/controller/backup/api';
import { decrypted, encrypted } from '@flynn/controller/backup/encryption';
import { type Inspection, inspectArchive } from '@flynn/controller/backup/inspection';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { installedCommands, repositoryCommands } from '@flynn/kit/operator-commands';
import type { Context } from '../context.ts';
import { withDumps } from '../datastores/dumps.ts';
import { untilInterrupted } from '../interruption.ts';
import { formatCount, formatSize } from '../output.ts';
import { passphraseOf, passphraseOption } from '../passphrase.ts';
import { placeFault, placeOf } from '../transfer.ts';
import { addScheduleCommands } from './backup-schedule.ts';
import { addCommand, type Parent } from './command.ts';

/** Everything is read twice before the first byte comes. */
const preparingMs = 15 * 60_000;
const leftMs = 12 * 3_600_000;

/** Under `flynn cluster`. */
export function addBackupCommands(parent: Parent, cluster: Command): void {
  const backup = addCommand<{ output?: string; skipMissing?: boolean; passphraseFile?: string }>(parent, {
    under: cluster,
    name: 'backup',
    summary: 'everything people made on the cluster, and its keys, as one file; it goes on running meanwhile',
    options: {
      output: ['-o, --output <file>', 'the file, - for standard output; else CLUSTER-TIME.backup'],
      skipMissing: [
        '--skip-missing',
        'leave out what the blob store lacks, and do with the last backup of a database, rather than fail',
      ],
      passphraseFile: passphraseOption,
    },
    examples: [
      'flynn cluster backup -o /mnt/backups/today.backup',
      'flynn cluster backup verify today.backup',
      'flynn cluster restore today.backup   # how the cluster comes back from it',
    ],
    async run(context, { output, skipMissing = false, passphraseFile }) {
      const passphrase = await passphraseOf(context, passphraseFile);
      const { name } = await context.cluster();
      const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '');
      const body = { mayMiss: skipMissing };
      const client = await context.client();
      const read = async (limits: { signal?: AbortSignal } = {}): Promise<AsyncIterable<Uint8Array>> => {
        const plain = await client.stream(backups.download, { body }, { timeoutMs: preparingMs, ...limits });
        return passphrase === undefined ? plain : encrypted(plain, passphrase);
      };
      if (output === '-') {
        const plain = await withDumps(context, body, () => read());
        return pipeline(plain, context.io.stdout, { end: false });
      }
      const file = resolve(context.io.cwd, output ?? `${name}-${time}Z.backup`);
      const found = await withDumps(context, body, () =>
        context.progress('backing up', () =>
          // What is half there has the cluster's keys in it as well: it goes, too, when somebody has enough of waiting.
          untilInterrupted(context.io, 'stopped: no file was written', (signal) =>
            saveChecked(read, file, { passphrase, signal }),
          ),
        ),
      );
      show(context, file, found);
      if (passphrase !== undefined) return;
      context.tell(
        'It holds all secrets and keys of the cluster, in clear: keep it as you keep a password, or encrypt it with --passphrase-file.',
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
  addRestoreCommand(parent, cluster);
}

/** Beside `backup`. It changes nothing: a cluster is brought back on a machine, and this may be any other. */
function addRestoreCommand(parent: Parent, cluster: Command): void {
  addCommand<{ passphraseFile?: string }>(parent, {
    under: cluster,
    name: 'restore',
    summary:
      'how a cluster comes back from a backup: reads the file from end to end, and says what to type where; changes nothing',
    arguments: [['[file]', 'what "flynn cluster backup" wrote']],
    options: { passphraseFile: passphraseOption },
    examples: ['flynn cluster restore today.backup'],
    async run(context, { passphraseFile }, [name]) {
      const passphrase = await passphraseOf(context, passphraseFile);
      const file = name === undefined ? undefined : resolve(context.io.cwd, name);
      const found =
        file === undefined ? undefined : await context.progress('reading', () => inspectFile(file, passphrase));
      const words = [
        file ?? 'FILE',
        ...(passphrase === undefined ? [] : ['--passphrase-file', passphraseFile ?? 'PATH']),
      ];
      const rest = words.map(quoted).join(' ');
      const [command, inRepository] = [`${installedCommands.restore} ${rest}`, `${repositoryCommands.restore} ${rest}`];
      const shown = file === undefined || found === undefined ? {} : shownOf(file, found);
      context.show({ ...shown, command, inRepository }, () =>
        [
          ...(file === undefined || found === undefined ? [] : [wholeText(file, found)]),
          'Nothing was changed. On a fresh machine that is to be the cluster, with the file on it, as root:',
          `  ${command}`,
          'or, where flynn runs from its repository:',
          `  ${inRepository}`,
        ].join('\n'),
      );
    },
  });
}

/** As a shell takes it. */
function quoted(word: string): string {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** What has the name is whole: it was read back from the disk. */
async function saveChecked(
  read: (limits: { signal: AbortSignal }) => Promise<AsyncIterable<Uint8Array>>,
  file: string,
  { passphrase, signal }: { passphrase: string | undefined; signal: AbortSignal },
): Promise<Inspection> {
  let partial: string | undefined;
  try {
    const place = await placeOf(file);
    const folder = dirname(place);
    partial = join(folder, `.${basename(place)}.${shortId()}.part`);
    await removeLeft(place);
    const body = await read({ signal });
    await pipeline(body, createWriteStream(partial, { mode: 0o600, flags: 'wx', flush: true }), { signal });
    const found = await inspectFile(partial, passphrase, { signal });
    await rename(partial, place);
    await using opened = await open(folder, 'r');
    await opened.sync();
    return found;
  } catch (error) {
    signal.throwIfAborted();
    throw placeFault(file, error);
  } finally {
    if (partial !== undefined) await rm(partial, { force: true });
  }
}

/** Whoever writes one writes to it all the time; what was not for so long is of a command that was killed. */
async function removeLeft(file: string): Promise<void> {
  const folder = dirname(file);
  for (const name of await readdir(folder)) {
    if (!name.startsWith(`.${basename(file)}.`) || !/\.[a-z0-9]+\.part$/.test(name)) continue;
    const path = join(folder, name);
    if ((await ageMs(path)) > leftMs) await rm(path, { force: true });
  }
}

/** Since it was last written to; of what its command has put in place or taken away meanwhile none. */
async function ageMs(path: string): Promise<number> {
  try {
    return Date.now() - (await stat(path)).mtimeMs;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return 0;
    throw error;
  }
}

async function inspectFile(
  file: string,
  passphrase: string | undefined,
  limits: { signal?: AbortSignal } = {},
): Promise<Inspection> {
  try {
    return await inspectArchive(decrypted(createReadStream(file, limits), passphrase));
  } catch (error) {
    const code = error instanceof FlynnError ? error.code : 'not_found';
    throw new FlynnError(code, `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

function show(context: Context, file: string, found: Inspection): void {
  context.show(shownOf(file, found), () => wholeText(file, found));
}

function shownOf(file: string, { manifest, digest, records, blobs, sizeBytes }: Inspection) {
  const { madeAt, cluster, platformVersion, missing } = manifest;
  return { file, digest, madeAt, cluster, platformVersion, records, blobs, sizeBytes, missing };
}

function wholeText(file: string, { manifest, records, blobs, sizeBytes }: Inspection): string {
  const count = (type: string): number => records[`records/${type}.ndjson`] ?? 0;
  const { madeAt, cluster, missing } = manifest;
  const things = [
    formatCount(count('app'), 'app'),
    formatCount(count('release'), 'release'),
    formatCount(count('user'), 'user'),
    formatCount(blobs, 'blob'),
    formatSize(sizeBytes),
  ].join(', ');
  const lacks =
    missing.length === 0 ? '' : `\n  ${formatCount(missing.length, 'blob')} left out: the blob store lacked them`;
  return `${file}: whole\n  ${things}, of ${cluster.name} (${cluster.domain}) at ${madeAt}${lacks}`;
}
