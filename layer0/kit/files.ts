/** Files that survive a power cut: a reader sees the old content or the new, never a part. */
import { open, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { FlynnError, hasErrno, messageOf } from './errors.ts';
import { shortId } from './ids.ts';

export type NewFile = {
  /** Default 0o600; whatever the old one's was, and whatever the umask is. */
  mode?: number;
  /** Default: who writes. */
  owner?: { uid: number; gid: number };
  /**
   * Default true. Otherwise the disk is not waited for: readers see the old or the new one still, but after a power cut it may be
   * damaged. For what is written all the time, and can be done without.
   */
  isSynced?: boolean;
};

/** The folder has to exist. The file has its mode and owner from the moment it is there under its name. */
export async function writeFileAtomic(
  file: string,
  data: string | Uint8Array,
  { mode = 0o600, owner, isSynced = true }: NewFile = {},
): Promise<void> {
  const folder = path.dirname(file);
  const temporary = path.join(folder, `.${path.basename(file)}.${shortId()}.tmp`);
  try {
    await using handle = await open(temporary, 'wx', 0o600);
    // The mode comes after the owner: a change of owner takes bits of it away.
    if (owner !== undefined) await handle.chown(owner.uid, owner.gid);
    await handle.chmod(mode);
    await handle.writeFile(data);
    if (isSynced) await handle.sync();
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    // Of what is written Node does not say where.
    if (error instanceof Error && hasErrno(error, 'ENOSPC', 'EDQUOT')) {
      error.message = `there is no room for ${file} on its disk: ${error.message}`;
    }
    throw error;
  }
  if (!isSynced) return;
  // The rename itself is only on disk once the folder is.
  await using handle = await open(folder, 'r');
  await handle.sync();
}

/** Not the file's fault: of what is in it they tell nothing, and a moment later it may be read. */
const failures = ['EIO', 'EMFILE', 'ENFILE', 'ENOMEM'] as const;

/**
 * undefined if there is no such file; `invalid` naming the file if it is there and cannot be read, `unavailable` where the disk or
 * the system failed.
 */
export async function readTextFile(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    const code = hasErrno(error, ...failures) ? 'unavailable' : 'invalid';
    throw new FlynnError(code, `${file} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** undefined if there is no such file; `invalid` naming the file if it is not what the schema says, else as `readTextFile`. */
export async function readJsonFile<S extends z.ZodType>(file: string, schema: S): Promise<z.output<S> | undefined> {
  const text = await readTextFile(file);
  if (text === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw new FlynnError('invalid', `${file} is not usable: ${messageOf(error)}`, { cause: error });
  }
}
