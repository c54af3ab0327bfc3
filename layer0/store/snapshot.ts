/** Backups of etcd: saved over the wire from a running cluster, restored into the data folder of a member to be. */
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { withDeadline } from '@flynn/kit/retry';
import { readSnapshot } from './etcd-snapshot.ts';
import type { SnapshotSource } from './etcd-snapshot.ts';
import type { Etcdutl } from './etcdutl.ts';
import { verifySnapshot } from './snapshot-file.ts';
import type { SnapshotFacts } from './snapshot-file.ts';

/** More than a cluster writes between two backups: revisions of before and after a restore never meet. */
const revisionsApart = 1_000_000_000;

/**
 * Saves everything the cluster holds into a file, which appears whole and verified or not at all; its folder has to exist.
 * `deadlineMs`: default 10 minutes. Throws what calls of the driver throw, `unavailable` if the stream broke.
 */
export async function saveSnapshot(
  source: SnapshotSource,
  file: string,
  options: { signal?: AbortSignal; deadlineMs?: number } = {},
): Promise<SnapshotFacts> {
  const signal = withDeadline(options.deadlineMs ?? 600_000, options.signal);
  const temporary = path.join(path.dirname(file), `.${path.basename(file)}.${shortId()}.tmp`);
  try {
    {
      await using handle = await open(temporary, 'wx', 0o600);
      for await (const chunk of readSnapshot(source, signal)) await handle.writeFile(chunk);
      await handle.sync();
    }
    const facts = await verifySnapshot(temporary, { signal });
    await rename(temporary, file);
    await syncFolder(path.dirname(file));
    return facts;
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

export type RestoreOptions = {
  etcdutl: Etcdutl;
  /** Of the member to be: missing or empty. It appears whole or not at all; its parent folder has to exist. */
  dataDir: string;
  /** The member's, as it will be started: the only one of a new cluster that others join later. */
  name: string;
  peerUrl: string;
  /**
   * How far revisions jump ahead, default 1,000,000,000: whoever knows revisions from before the restore, a watch or a
   * compare, is refused instead of taking them for those of now. 0 restores the revisions too.
   */
  revisionsApart?: number;
  signal?: AbortSignal;
  /** Default 10 minutes. */
  deadlineMs?: number;
};

/**
 * Makes the data folder of a new one-member cluster from a snapshot. The cluster's id is a new one each time, so that
 * clients of the old notice. Leases come back too, and run out within their TTL unless their holders are there.
 * Throws `not_found` or `invalid` for the file, `conflict` if there is data already.
 */
export async function restoreSnapshot(file: string, options: RestoreOptions): Promise<SnapshotFacts> {
  const signal = withDeadline(options.deadlineMs ?? 600_000, options.signal);
  const facts = await verifySnapshot(file, { signal });
  const { dataDir, name, peerUrl } = options;
  if (!(await isEmpty(dataDir))) {
    throw new FlynnError('conflict', `${dataDir} holds data already: move it away to restore ${file} in its place`);
  }
  const parent = path.dirname(path.resolve(dataDir));
  const temporary = path.join(parent, `.${path.basename(dataDir)}.${shortId()}.tmp`);
  const apart = options.revisionsApart;
  await mkdir(temporary, { mode: 0o700 });
  try {
    const source = path.resolve(file);
    const args = restoringArgs({ dataDir: temporary, name, peerUrl, revisionsApart: apart });
    const folders = [temporary, path.dirname(source)];
    await options.etcdutl(['snapshot', 'restore', source, ...args], { folders, signal });
    await rename(temporary, dataDir);
    await syncFolder(parent);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
  return facts;
}

/** What etcdutl is told after `snapshot restore FILE`: see `RestoreOptions`. */
export function restoringArgs({
  dataDir,
  name,
  peerUrl,
  revisionsApart: apart = revisionsApart,
}: Pick<RestoreOptions, 'dataDir' | 'name' | 'peerUrl'> & { revisionsApart?: number | undefined }): string[] {
  const args = [`--data-dir=${dataDir}`, `--name=${name}`, `--initial-cluster=${name}=${peerUrl}`];
  args.push(`--initial-advertise-peer-urls=${peerUrl}`, `--initial-cluster-token=restored-${shortId()}`);
  return apart > 0 ? [...args, `--bump-revision=${apart}`, '--mark-compacted'] : args;
}

async function isEmpty(folder: string): Promise<boolean> {
  try {
    return (await readdir(folder)).length === 0;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return true;
    throw new FlynnError('invalid', `${folder} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** A rename is only on disk once its folder is. */
async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}
