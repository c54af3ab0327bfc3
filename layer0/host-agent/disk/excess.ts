/** Has a container more on the disk than it may: by its bytes, or by how many files they are? */
import type { DiskUse } from '../engine/engine.ts';

export type Excess = Readonly<{ of: 'bytes' | 'files'; used: number; limit: number }>;

/** As file systems make them: a smaller file takes as much room. */
const bytesPerFile = 4096;
/** What is made of many small files (packages, caches of browsers) has so many beside any limit of bytes. */
const leastFiles = 100_000;

/**
 * `totalFiles`: what the disk has at all. Once they are used up nobody on the host makes a file, so one container has no more than
 * a quarter.
 */
export function excessOf(use: DiskUse, limitBytes: number, totalFiles = Infinity): Excess | undefined {
  if (use.writableBytes > limitBytes) return { of: 'bytes', used: use.writableBytes, limit: limitBytes };
  const limit = Math.max(leastFiles, Math.floor(Math.min(limitBytes / bytesPerFile, totalFiles / 4)));
  return use.writableFiles > limit ? { of: 'files', used: use.writableFiles, limit } : undefined;
}

/** For people, and for the log of the job. */
export function excessText({ of, used, limit }: Excess): string {
  const megabytes = (bytes: number): number => Math.ceil(bytes / 2 ** 20);
  return of === 'bytes'
    ? `killed: wrote ${megabytes(used)} MiB outside its volumes (limit ${megabytes(limit)} MiB)`
    : `killed: made ${used} files and folders outside its volumes (limit ${limit}, which follows from that of its disk): remove what it does not need, or keep it in a volume`;
}
