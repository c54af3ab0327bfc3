/** How full is a disk? As `df` has it: what is kept for root counts neither as used nor as free. */
import { statfs } from 'node:fs/promises';

type Blocks = { bsize: number; blocks: number; bfree: number; bavail: number };

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
