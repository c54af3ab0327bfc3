/** How full is a disk? As `df` has it: what is kept for root counts neither as used nor as free. */
import { statfs } from 'node:fs/promises';

type Blocks = { bsize: number; blocks: number; bfree: number; bavail: number };
type Inodes = { files: number; ffree: number };

/** `usedPercent` is used / (used + what may still be written), to a tenth: 100 is when nothing may. */
export function diskUseOf({ bsize, blocks, bfree, bavail }: Blocks) {
  const used = blocks - bfree;
  const writable = used + bavail;
  return {
    totalBytes: blocks * bsize,
    usedBytes: used * bsize,
    freeBytes: bavail * bsize,
    usedPercent: writable === 0 ? 0 : Math.round((used / writable) * 1_000) / 10,
  };
}

export async function diskOf(path: string) {
  const { totalBytes, usedBytes, usedPercent } = diskUseOf(await statfs(path));
  return { path, totalBytes, usedBytes, usedPercent };
}

/** Undefined of a file system that makes them as they are needed. */
export function inodesUsedPercent({ files, ffree }: Inodes): number | undefined {
  return files === 0 ? undefined : Math.round(((files - ffree) / files) * 1_000) / 10;
}

/** By what there is less left of: without inodes no file can be made, however much room there is. */
export function scarcestOf(room: Blocks & Inodes): { usedPercent: number; totalBytes: number } {
  const { totalBytes, usedPercent } = diskUseOf(room);
  return { totalBytes, usedPercent: Math.max(usedPercent, inodesUsedPercent(room) ?? 0) };
}

export async function diskRoomOf(path: string) {
  return scarcestOf(await statfs(path));
}
