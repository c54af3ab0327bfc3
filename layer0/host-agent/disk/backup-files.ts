/**
 * Backups in a directory of the host, for whoever has the cluster's key. Only files called NAME.backup are written, told of
 * or removed, and only in directories that are there: what is mounted where is the operators' to say.
 */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, normalize } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

const absolute = z
  .string()
  .max(1_000)
  .refine(
    (path) => path.startsWith('/') && !path.includes('\0') && normalize(path) === path,
    'expected an absolute path',
  );
const filePath = absolute.refine(
  (path) => /^[A-Za-z0-9][\w.-]{0,150}\.backup$/.test(basename(path)),
  'expected a file called NAME.backup',
);

export const backupFileRoutes = {
  put: defineRoute({
    method: 'PUT',
    path: '/backup-files',
    query: z.object({ path: filePath }),
    body: 'stream',
    response: z.object({ sizeBytes: z.int(), sha256: z.string() }),
    summary: 'Write a backup; answers what was read back from the disk',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/backup-files',
    query: z.object({ directory: absolute }),
    response: z.array(z.object({ name: z.string(), sizeBytes: z.int() })),
    summary: 'The backups in a directory, by name',
  }),
  mount: defineRoute({
    method: 'GET',
    path: '/backup-files/mount',
    query: z.object({ directory: absolute }),
    response: z.object({ mount: z.string().optional() }),
    summary: 'Where what a directory is on is mounted; nothing where that is the root of all',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/backup-files',
    query: z.object({ path: filePath }),
    response: 'empty',
    summary: 'Remove a backup; one that is not there is fine',
  }),
} as const;

export function backupFileHandlers(): Handler[] {
  return [
    handle(backupFileRoutes.put, ({ query, body, signal }) =>
      translated(query.path, () => write(query.path, body, signal)),
    ),
    handle(backupFileRoutes.list, ({ query }) => translated(query.directory, () => list(query.directory))),
    handle(backupFileRoutes.mount, ({ query: { directory } }) =>
      translated(directory, async () => {
        const mount = await mountOf(directory);
        return mount === undefined ? {} : { mount };
      }),
    ),
    handle(backupFileRoutes.remove, ({ query }) => translated(query.path, () => rm(query.path, { force: true }))),
  ];
}

/** Whoever writes one writes to it all the time; what was not for so long is of an agent that was killed. */
const leftMs = 12 * 3_600_000;

async function removeLeft(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!/^\.[\w.-]+\.backup\.[a-z0-9]+\.part$/.test(name)) continue;
    const path = join(folder, name);
    const found = await stat(path).catch(undefinedIfGone);
    if (found !== undefined && Date.now() - found.mtimeMs > leftMs) await rm(path, { force: true });
  }
}

/** It appears whole, on disk, or not at all. */
async function write(
  path: string,
  body: Readable,
  signal: AbortSignal,
): Promise<{ sizeBytes: number; sha256: string }> {
  const folder = dirname(path);
  const partial = join(folder, `.${basename(path)}.${shortId()}.part`);
  await removeLeft(folder);
  try {
    await pipeline(body, createWriteStream(partial, { flags: 'wx', mode: 0o600, flush: true }), { signal });
    const hash = createHash('sha256');
    await pipeline(createReadStream(partial, { highWaterMark: 256 * 1024 }), hash, { signal });
    const { size } = await stat(partial);
    await rename(partial, path);
    await using handle = await open(folder, 'r');
    await handle.sync();
    return { sizeBytes: size, sha256: hash.digest('hex') };
  } finally {
    await rm(partial, { force: true });
  }
}

async function list(directory: string): Promise<{ name: string; sizeBytes: number }[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.backup') && !name.startsWith('.'));
  const files = await Promise.all(
    names.toSorted().map(async (name) => ({ name, found: await stat(join(directory, name)).catch(undefinedIfGone) })),
  );
  return files.flatMap(({ name, found }) => (found?.isFile() === true ? [{ name, sizeBytes: found.size }] : []));
}

/** The nearest folder, from it upwards, that is on another device than the one it is in. */
async function mountOf(directory: string): Promise<string | undefined> {
  let folder = await realpath(directory);
  for (let { dev } = await stat(folder); folder !== '/'; folder = dirname(folder)) {
    const above = await stat(dirname(folder));
    if (above.dev !== dev) return folder;
  }
  return undefined;
}

function undefinedIfGone(error: unknown): undefined {
  if (!hasErrno(error, 'ENOENT')) throw error;
}

async function translated<T>(path: string, task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ENOTDIR')) {
      throw new FlynnError('not_found', `${path} leads to no directory of this host: make it, or mount it, first`);
    }
    if (hasErrno(error, 'ENOSPC', 'EDQUOT')) {
      throw new FlynnError('exhausted', `there is no room for ${path}: free some, or keep fewer backups`);
    }
    if (hasErrno(error, 'EACCES', 'EPERM', 'EROFS', 'EISDIR')) {
      throw new FlynnError('conflict', `${path} cannot be written: ${messageOf(error)}`);
    }
    throw error;
  }
}
