/** Have the disks room for the images that are being brought? Everything on this host may have the same one. */
import { stat, statfs } from 'node:fs/promises';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import { watermarks } from '../disk/cleaner.ts';
import { diskUseOf } from '../disk/use.ts';

/** Places of one device share their room. */
export type Disk = { path: string; device: number; usedBytes: number; freeBytes: number };
/** Where images are unpacked, and where the engine has them. */
export type Disks = { scratch: Disk; engine: Disk };

/** INVARIANT. What any image has unpacked, and the engine does not have yet, counts for all of them. */
export class ImageDisks {
  readonly #read: () => Promise<Disks>;
  #comingBytes = 0;

  constructor(read: () => Promise<Disks>) {
    this.#read = read;
  }

  /** The engine is about to have so much more; less once it has it, or will not. */
  expect(bytes: number): void {
    this.#comingBytes += bytes;
  }

  /** `exhausted` at the watermark where the host takes no more jobs. */
  async look(): Promise<void> {
    const { scratch, engine } = await this.#read();
    // What is unpacked is on that already.
    if (scratch.device !== engine.device) assertRoom(scratch, 0);
    assertRoom(engine, this.#comingBytes);
  }
}

function assertRoom({ path, usedBytes, freeBytes }: Disk, comingBytes: number): void {
  const usedPercent = Math.floor((100 * (usedBytes + comingBytes)) / (usedBytes + freeBytes));
  if (usedPercent < watermarks.full) return;
  throw new FlynnError(
    'exhausted',
    `the disk of this host (${path}) has no room for the image: ${usedPercent} % of it would be in use, and from ${watermarks.full} % on it takes no jobs; free some, or run the job on another host`,
  );
}

/** `engineDir`: undefined where the engine does not say. One that is not on this machine's disks counts as the other. */
export function disksAt(scratchDir: string, engineDir: () => Promise<string | undefined>): () => Promise<Disks> {
  return async () => {
    const scratch = await diskAt(scratchDir);
    const dir = await engineDir();
    try {
      return { scratch, engine: dir === undefined ? scratch : await diskAt(dir) };
    } catch (error) {
      if (!hasErrno(error, 'ENOENT')) throw error;
      return { scratch, engine: scratch };
    }
  };
}

async function diskAt(path: string): Promise<Disk> {
  const [{ dev: device }, blocks] = await Promise.all([stat(path), statfs(path)]);
  const { usedBytes, freeBytes } = diskUseOf(blocks);
  return { path, device, usedBytes, freeBytes };
}
