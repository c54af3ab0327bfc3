/** Storage in a directory: `blobs/sha256/ab/<hex>`, `names/<name>`, and `tmp/` for what is being written. */
import { createHash } from 'node:crypto';
import { mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import type { Blob } from './api.ts';
import { checkName, hexOf } from './storage.ts';
import type { Storage } from './storage.ts';

/** Far longer than any upload lasts: another process may be writing into the same directory during an update. */
const leftoverAgeMs = 24 * 3_600_000;

/** Makes the directory ready and removes what interrupted uploads of long ago left behind. */
export async function openFilesystem(dir: string, options: { nowMs: number }): Promise<Storage> {
  const tmpDir = join(dir, 'tmp');
  const namesDir = join(dir, 'names');
  for (const each of [tmpDir, namesDir, join(dir, 'blobs', 'sha256')]) await mkdir(each, { recursive: true });
  for (const file of await readdir(tmpDir)) {
    // Undefined when another process has finished with it since.
    const found = await stat(join(tmpDir, file)).catch(undefinedIfGone);
    if (found !== undefined && options.nowMs - found.mtimeMs > leftoverAgeMs) {
      await rm(join(tmpDir, file), { force: true });
    }
  }

  const blobPath = (digest: string) => {
    const hex = hexOf(digest);
    return join(dir, 'blobs', 'sha256', hex.slice(0, 2), hex);
  };
  // A flat directory, so that the names `a` and `a/b` can both be there; `+` is in no name.
  const namePath = (name: string) => join(namesDir, checkName(name).replaceAll('/', '+'));
  const install = (from: string, to: string) => moveDurably(from, to, dir);

  async function statBlob(digest: string): Promise<Blob> {
    const found = await translated(`the blob ${digest}`, () => stat(blobPath(digest)));
    return { digest, sizeBytes: found.size };
  }

  return {
    async put(body, { digest, signal }) {
      if (digest !== undefined) hexOf(digest);
      const temporary = join(tmpDir, newId());
      try {
        return await translated('the blob', async () => {
          const blob = await writeDurably(temporary, body, signal);
          if (digest !== undefined && blob.digest !== digest) {
            throw new FlynnError('invalid', `the bytes are ${blob.digest}, not ${digest}: send them again`);
          }
          // Also when it is there already: should the disk have damaged it, this heals it.
          await install(temporary, blobPath(blob.digest));
          return blob;
        });
      } finally {
        await rm(temporary, { force: true });
      }
    },
    open(digest) {
      return translated(`the blob ${digest}`, async () => {
        const file = await open(blobPath(digest));
        try {
          const { size } = await file.stat();
          return { sizeBytes: size, body: file.createReadStream({ highWaterMark: 256 * 1024 }) };
        } catch (error) {
          await file.close();
          throw error;
        }
      });
    },
    stat: statBlob,
    async remove(digest) {
      await rm(blobPath(digest), { force: true });
    },
    async putName(name, digest) {
      const path = namePath(name);
      await statBlob(digest);
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
      return statBlob(digest);
    },
    async removeName(name) {
      await rm(namePath(name), { force: true });
    },
  };
}

function undefinedIfGone(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
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
