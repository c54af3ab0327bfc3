/** How full is a disk? As `df` has it: what is kept for root counts neither as used nor as free. */
import { statfs } from 'node:fs/promises';

type Blocks = { bsize: number; blocks: number; bfree: number; bavail: number };
type Inodes = { files: number; ffree: number };

/** Without `totalFiles` the file system makes as many as are needed. */
export type DiskRoom = Readonly<{ usedPercent: number; totalBytes: number; totalFiles?: number }>;

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
export function scarcestOf(room: Blocks & Inodes): DiskRoom {
  const { totalBytes, usedPercent } = diskUseOf(room);
  const percent = Math.max(usedPercent, inodesUsedPercent(room) ?? 0);
  return { totalBytes, usedPercent: percent, ...(room.files === 0 ? {} : { totalFiles: room.files }) };
}

export async function diskRoomOf(path: string): Promise<DiskRoom> {
  return scarcestOf(await statfs(path));
}
