/** A store's copies in a directory: `blobs/sha256/ab/<hex>`, `names/`, `removed/`, and `tmp/` for what is being written. */
import type { Stats } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { hasErrno } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { KeyedMutex } from '@flynn/kit/queue';
import { isLater, removalMemoryMs } from './replica.ts';
import type { Held, OwnReplica, Pointer } from './replica.ts';
import { ReplicatedStorage } from './replicated.ts';
import { beyondEnd, checkSame, removedSince, translated, writeDurably } from './spool.ts';
import { checkName, hexOf } from './storage.ts';
import type { Page, Storage } from './storage.ts';

/** Nothing was written to it for so long: nobody does any more, not even another process that takes over in an update. */
const leftoverAgeMs = 3_600_000;
const sweepMs = 600_000;

/**
 * Makes the directory ready and removes what interrupted uploads left behind, now and then later too. When a blob was used
 * is its file's time; `removed/<hex>` is empty and its time is that of the removal, an empty file in `names/` a removed name.
 */
export async function openDirectory(dir: string, options: { nowMs: number }): Promise<OwnReplica> {
  const tmpDir = join(dir, 'tmp');
  const namesDir = join(dir, 'names');
  const removedDir = join(dir, 'removed');
  const blobsDir = join(dir, 'blobs', 'sha256');
  for (const each of [tmpDir, namesDir, removedDir, blobsDir]) await mkdir(each, { recursive: true });
  let sweptMs = -Infinity;
  await sweep(options.nowMs);

  const blobPath = (digest: string) => {
    const hex = hexOf(digest);
    return join(blobsDir, hex.slice(0, 2), hex);
  };
  const removalPath = (digest: string) => join(removedDir, hexOf(digest));
  // A flat directory, so that the names `a` and `a/b` can both be there; `+` is in no name.
  const namePath = (name: string) => join(namesDir, checkName(name).replaceAll('/', '+'));

  // What is used and what is removed at the same time take turns: a use is seen, or comes too late.
  const turns = new KeyedMutex();

  /** What a kill left behind was too young to go when this process began. */
  async function sweep(nowMs: number): Promise<void> {
    if (nowMs - sweptMs < sweepMs) return;
    sweptMs = nowMs;
    await removeOlder(tmpDir, nowMs - leftoverAgeMs);
    await removeOlder(removedDir, nowMs - removalMemoryMs);
    await removeOlder(namesDir, nowMs - removalMemoryMs, ({ size }) => size === 0);
  }

  async function find(digest: string): Promise<Held | undefined> {
    const file = await stat(blobPath(digest)).catch(undefinedIfGone);
    return file === undefined ? undefined : { digest, sizeBytes: file.size, usedAt: timeOf(file) };
  }

  async function removedBefore(digest: string): Promise<number | undefined> {
    const file = await stat(removalPath(digest)).catch(undefinedIfGone);
    return file === undefined ? undefined : timeOf(file);
  }

  async function pointer(name: string): Promise<Pointer | undefined> {
    const path = namePath(name);
    // One look: by its path the time could be that of another that has just taken its place.
    await using file = await open(path).catch(undefinedIfGone);
    if (file === undefined) return undefined;
    const changedAt = timeOf(await file.stat());
    const digest = await file.readFile('utf8');
    return { name, digest: digest === '' ? null : digest, changedAt };
  }

  /** Writes beside, with the given time, and puts it in its place in one step. */
  async function replace(path: string, content: string, atMs: number): Promise<void> {
    const temporary = join(tmpDir, newId());
    try {
      await writeDurably(temporary, [Buffer.from(content)], undefined);
      await setTime(temporary, atMs);
      await moveDurably(temporary, path, dir);
    } finally {
      await rm(temporary, { force: true });
    }
  }

  /** The time it is to have: a copy's own, or now for new bytes; never before one that is there already. */
  async function timeOfNew(digest: string, usedAt: number | undefined): Promise<number> {
    const removed = (await removedBefore(digest)) ?? 0;
    if (usedAt !== undefined && usedAt < removed) throw removedSince(digest);
    const held = await find(digest);
    return Math.max(usedAt ?? Math.max(Date.now(), removed), held?.usedAt ?? 0);
  }

  /** With `usedAt` a copy. */
  async function keep(
    body: AsyncIterable<Uint8Array>,
    { digest, usedAt, signal }: { digest?: string | undefined; usedAt?: number; signal?: AbortSignal | undefined },
  ): Promise<Held> {
    if (digest !== undefined) hexOf(digest);
    await sweep(Date.now());
    const temporary = join(tmpDir, newId());
    try {
      return await translated('the blob', async () => {
        const blob = await writeDurably(temporary, body, signal);
        checkSame(digest, blob);
        return await turns.run(blob.digest, async () => {
          const at = await timeOfNew(blob.digest, usedAt);
          await setTime(temporary, at);
          // Also when it is there already: should the disk have damaged it, this heals it.
          await moveDurably(temporary, blobPath(blob.digest), dir);
          await rm(removalPath(blob.digest), { force: true });
          return { ...blob, usedAt: at };
        });
      });
    } finally {
      await rm(temporary, { force: true });
    }
  }

  return {
    put: keep,
    copy: ({ digest, usedAt }, body, { signal } = {}) => keep(body, { digest, usedAt, signal }),
    open(digest, { from = 0 } = {}) {
      return translated(`the blob ${digest}`, async () => {
        const file = await open(blobPath(digest));
        try {
          const { size } = await file.stat();
          if (from > size) throw beyondEnd(digest, size, from);
          return { sizeBytes: size, body: file.createReadStream({ highWaterMark: 256 * 1024, start: from }) };
        } catch (error) {
          await file.close();
          throw error;
        }
      });
    },
    find,
    removedBefore,
    use: (digest, at) =>
      turns.run(digest, async () => {
        const held = await find(digest);
        if (held === undefined) return undefined;
        if (held.usedAt < at) await setTime(blobPath(digest), at);
        return { digest, sizeBytes: held.sizeBytes };
      }),
    remove: ({ digest, before }) =>
      turns.run(digest, async () => {
        const held = await find(digest);
        if (held !== undefined && held.usedAt >= before) return false;
        const known = await removedBefore(digest);
        // First that it is removed: a kill in between leaves a blob that goes when it is asked for again.
        if (known === undefined || known < before) await replace(removalPath(digest), '', before);
        await rm(blobPath(digest), { force: true });
        return true;
      }),
    async list({ after, limit }) {
      const from = after === '' ? '' : hexOf(after);
      const found: Held[] = [];
      for (const folder of (await readdir(blobsDir)).sort()) {
        if (folder < from.slice(0, 2)) continue;
        for (const hex of (await readdir(join(blobsDir, folder))).sort()) {
          const held = hex <= from ? undefined : await find(`sha256:${hex}`);
          if (held !== undefined) found.push(held);
          if (found.length >= limit) return found;
        }
      }
      return found;
    },
    removals: ({ after, limit }) =>
      page(removedDir, { after: after === '' ? '' : hexOf(after), limit }, async (hex) => {
        const before = await removedBefore(`sha256:${hex}`);
        return before === undefined ? undefined : { digest: `sha256:${hex}`, before };
      }),
    pointer,
    async point(wanted) {
      const path = namePath(wanted.name);
      await turns.run(`name ${wanted.name}`, async () => {
        if (!isLater(wanted, await pointer(wanted.name))) return;
        await translated(`the name ${wanted.name}`, () => replace(path, wanted.digest ?? '', wanted.changedAt));
      });
    },
    pointers: ({ after, limit }) => page(namesDir, { after, limit }, pointer, (file) => file.replaceAll('+', '/')),
  };
}

/** Storage in one directory, with no other store beside it. */
export async function openFilesystem(dir: string, options: { nowMs: number }): Promise<Storage> {
  return new ReplicatedStorage({ own: await openDirectory(dir, options), peers: () => [], clock: systemClock });
}

/** What `read` makes of the keys of a flat directory's files, in their order, those after the given one. */
async function page<T>(
  dir: string,
  { after, limit }: Page,
  read: (key: string) => Promise<T | undefined>,
  keyOf: (file: string) => string = (file) => file,
): Promise<T[]> {
  const found: T[] = [];
  for (const key of (await readdir(dir)).map(keyOf).sort()) {
    if (found.length >= limit) break;
    const value = key <= after ? undefined : await read(key);
    if (value !== undefined) found.push(value);
  }
  return found;
}

/** Whole milliseconds: a file's time goes through fractions of seconds. */
function timeOf({ mtimeMs }: Pick<Stats, 'mtimeMs'>): number {
  return Math.round(mtimeMs);
}

async function setTime(path: string, atMs: number): Promise<void> {
  const at = new Date(atMs);
  await utimes(path, at, at);
}

async function removeOlder(dir: string, beforeMs: number, which: (file: Stats) => boolean = () => true): Promise<void> {
  for (const name of await readdir(dir)) {
    // Undefined when another process has finished with it since.
    const file = await stat(join(dir, name)).catch(undefinedIfGone);
    if (file !== undefined && file.mtimeMs < beforeMs && which(file)) await rm(join(dir, name), { force: true });
  }
}

function undefinedIfGone(error: unknown): undefined {
  if (!hasErrno(error, 'ENOENT')) throw error;
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
