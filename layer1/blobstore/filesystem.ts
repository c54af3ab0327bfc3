/** Storage in a directory: `blobs/sha256/ab/<hex>`, `names/<name>`, and `tmp/` for what is being written. */
import { createHash } from 'node:crypto';
import { mkdir, open, readFile, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FlynnError, asFlynnError, hasErrno } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { KeyedMutex } from '@flynn/kit/queue';
import type { Blob, ListedBlob, ListedName } from './api.ts';
import { checkName, hexOf } from './storage.ts';
import type { Storage } from './storage.ts';

/** Nothing was written to it for so long: nobody does any more, not even another process that takes over in an update. */
const leftoverAgeMs = 3_600_000;
const sweepMs = 600_000;

/** Makes the directory ready and removes what interrupted uploads left behind, now and then later too. */
export async function openFilesystem(dir: string, options: { nowMs: number }): Promise<Storage> {
  const tmpDir = join(dir, 'tmp');
  const namesDir = join(dir, 'names');
  for (const each of [tmpDir, namesDir, join(dir, 'blobs', 'sha256')]) await mkdir(each, { recursive: true });
  let sweptMs = options.nowMs;
  await removeLeftovers(tmpDir, sweptMs);

  const blobPath = (digest: string) => {
    const hex = hexOf(digest);
    return join(dir, 'blobs', 'sha256', hex.slice(0, 2), hex);
  };
  // A flat directory, so that the names `a` and `a/b` can both be there; `+` is in no name.
  const namePath = (name: string) => join(namesDir, checkName(name).replaceAll('/', '+'));
  const install = (from: string, to: string) => moveDurably(from, to, dir);

  // What is used and what is removed at the same time take turns: a use is seen, or comes too late.
  const turns = new KeyedMutex();

  /** Whoever asks after a blob is about to use it: its file's time says so. */
  function useBlob(digest: string): Promise<Blob> {
    const path = blobPath(digest);
    return turns.run(digest, () =>
      translated(`the blob ${digest}`, async () => {
        const now = new Date();
        await utimes(path, now, now);
        return { digest, sizeBytes: (await stat(path)).size };
      }),
    );
  }

  return {
    async put(body, { digest, signal }) {
      if (digest !== undefined) hexOf(digest);
      // What a kill left behind was too young to go when this process began.
      const nowMs = Date.now();
      if (nowMs - sweptMs > sweepMs) {
        sweptMs = nowMs;
        await removeLeftovers(tmpDir, nowMs);
      }
      const temporary = join(tmpDir, newId());
      try {
        return await translated('the blob', async () => {
          const blob = await writeDurably(temporary, body, signal);
          if (digest !== undefined && blob.digest !== digest) {
            throw new FlynnError('invalid', `the bytes are ${blob.digest}, not ${digest}: send them again`);
          }
          // Also when it is there already: should the disk have damaged it, this heals it.
          await turns.run(blob.digest, () => install(temporary, blobPath(blob.digest)));
          return blob;
        });
      } finally {
        await rm(temporary, { force: true });
      }
    },
    open(digest, { from = 0 } = {}) {
      return translated(`the blob ${digest}`, async () => {
        const file = await open(blobPath(digest));
        try {
          const { size } = await file.stat();
          if (from > size)
            throw new FlynnError('invalid', `the blob ${digest} has ${size} bytes: none is after ${from}`);
          return { sizeBytes: size, body: file.createReadStream({ highWaterMark: 256 * 1024, start: from }) };
        } catch (error) {
          await file.close();
          throw error;
        }
      });
    },
    stat: useBlob,
    async remove(digest, { unusedSince } = {}) {
      const path = blobPath(digest);
      await turns.run(digest, async () => {
        const found = unusedSince === undefined ? undefined : await stat(path).catch(undefinedIfGone);
        if (unusedSince !== undefined && found !== undefined && found.mtimeMs >= unusedSince) {
          throw new FlynnError('conflict', `the blob ${digest} was used since: it stays`);
        }
        await rm(path, { force: true });
      });
    },
    async list({ after, limit }) {
      const root = join(dir, 'blobs', 'sha256');
      const from = after === '' ? '' : hexOf(after);
      const found: ListedBlob[] = [];
      for (const folder of (await readdir(root)).sort()) {
        if (folder < from.slice(0, 2)) continue;
        for (const hex of (await readdir(join(root, folder))).sort()) {
          if (hex <= from) continue;
          const file = await stat(join(root, folder, hex)).catch(undefinedIfGone);
          if (file !== undefined) found.push({ digest: `sha256:${hex}`, sizeBytes: file.size, usedAt: file.mtimeMs });
          if (found.length >= limit) return found;
        }
      }
      return found;
    },
    async listNames({ after, limit }) {
      const names = (await readdir(namesDir)).map((file) => file.replaceAll('+', '/')).sort();
      const found: ListedName[] = [];
      for (const name of names) {
        if (found.length >= limit) break;
        if (name <= after) continue;
        const file = await stat(namePath(name)).catch(undefinedIfGone);
        const digest = await readFile(namePath(name), 'utf8').catch(undefinedIfGone);
        if (file !== undefined && digest !== undefined) found.push({ name, digest, changedAt: file.mtimeMs });
      }
      return found;
    },
    async putName(name, digest) {
      const path = namePath(name);
      await useBlob(digest);
      const temporary = join(tmpDir, newId());
      try {
        await translated(`the name ${name}`, async () => {
          await writeDurably(temporary, [Buffer.from(digest)], undefined);
          await install(temporary, path);
        });
      } finally {
        await rm(temporary, { force: true });
      }
    },
    async getName(name) {
      const path = namePath(name);
      const digest = await translated(`the name ${name}`, () => readFile(path, 'utf8'));
      return useBlob(digest);
    },
    async removeName(name) {
      await rm(namePath(name), { force: true });
    },
  };
}

async function removeLeftovers(tmpDir: string, nowMs: number): Promise<void> {
  for (const file of await readdir(tmpDir)) {
    // Undefined when another process has finished with it since.
    const found = await stat(join(tmpDir, file)).catch(undefinedIfGone);
    if (found !== undefined && nowMs - found.mtimeMs > leftoverAgeMs) await rm(join(tmpDir, file), { force: true });
  }
}

function undefinedIfGone(error: unknown): undefined {
  if (!hasErrno(error, 'ENOENT')) throw error;
}

async function writeDurably(
  path: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Blob> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  await using file = await open(path, 'wx', 0o644);
  for await (const chunk of body) {
    signal?.throwIfAborted();
    hash.update(chunk);
    sizeBytes += chunk.length;
    await file.appendFile(chunk);
  }
  await file.sync();
  return { digest: `sha256:${hash.digest('hex')}`, sizeBytes };
}

/** A rename lasts only once the directory is on disk too, and a new directory once its parent is. */
async function moveDurably(from: string, to: string, root: string): Promise<void> {
  const made = await mkdir(dirname(to), { recursive: true });
  await rename(from, to);
  for (let path = dirname(to); path.length >= root.length; path = dirname(path)) {
    await using directory = await open(path);
    await directory.sync();
    if (made === undefined) break;
  }
}

async function translated<T>(what: string, fn: () => Promise<T>): Promise<T> {
  try {
    return await fn();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (error instanceof FlynnError) throw error;
    if (code === 'ENOENT') throw new FlynnError('not_found', `${what} is not in the blob store`, { cause: error });
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      throw new FlynnError('exhausted', `there is no room for ${what}: free disk space on the blob store's volume`, {
        cause: error,
      });
    }
    throw asFlynnError(error);
  }
}
