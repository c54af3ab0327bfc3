/** A folder of the cache that a tool fills, and that is whole at any time, whatever becomes of what the tool does. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext } from './buildpack.ts';

/** Packing and storing all of it takes longer than making so little of it again. */
const littleShare = 0.05;

export type Held = {
  /** Paths below the folder, with their bytes. */
  files: ReadonlyMap<string, number>;
  bytes: number;
};

export const nothingHeld: Held = { files: new Map(), bytes: 0 };

export async function heldIn(dir: string): Promise<Held> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = new Map<string, number>();
  let bytes = 0;
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const { size } = await lstat(path);
    files.set(path.slice(dir.length), size);
    bytes += size;
  }
  return { files, bytes };
}

/**
 * Does work that fills the store, and answers whether it is worth storing again. If it is, it is kept though the work fails: what
 * was fetched and compiled before is good.
 */
export async function whileFilling(
  dir: string,
  { keepCache, signal }: Pick<BuildContext, 'keepCache' | 'signal'>,
  work: () => Promise<void>,
): Promise<boolean> {
  const before = await heldIn(dir);
  const isMuchNew = async (): Promise<boolean> => hasMuchNew(before, await heldIn(dir));
  try {
    await work();
  } catch (error) {
    if (!signal.aborted && (await isMuchNew())) keepCache();
    throw error;
  }
  return isMuchNew();
}

/** What was little, and so not stored, is new in the next build too, with what that one adds. */
function hasMuchNew(before: Held, now: Held): boolean {
  let newBytes = 0;
  for (const [path, bytes] of now.files) if (!before.files.has(path)) newBytes += bytes;
  return newBytes > now.bytes * littleShare;
}
