import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { backups } from '@flynn/controller/backup/api';
import { decrypted, encrypted } from '@flynn/controller/backup/encryption';
import { type Inspection, inspectArchive } from '@flynn/controller/backup/inspection';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { formatCount, formatMebibytes } from '../output.ts';
import { passphraseOf, passphraseOption } from '../passphrase.ts';
import { addScheduleCommands } from './backup-schedule.ts';
import { addCommand, type Parent } from './command.ts';

/** Everything is read twice before the first byte comes. */
const preparingMs = 15 * 60_000;

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
    formatMebibytes(sizeBytes),
  ].join(', ');
  const lacks =
    missing.length === 0 ? '' : `\n  ${formatCount(missing.length, 'blob')} left out: the blob store lacked them`;
  context.show(shown, () => `${file}: whole\n  ${things}, of ${cluster.name} (${cluster.domain}) at ${madeAt}${lacks}`);
}
