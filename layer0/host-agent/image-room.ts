/**
 * How much may an image take while it is brought here? What a layer unpacks to is nobody's word: a few hundred kilobytes may become
 * any number of bytes, and everything on this host has the same disk.
 */
import { statfs } from 'node:fs/promises';
import { FlynnError } from '@flynn/kit/errors';
import { watermarks } from './cleaner.ts';
import { diskUseOf } from './disk-use.ts';

const gib = 1024 ** 3;
export const imageLimits = { layerBytes: 10 * gib, imageBytes: 20 * gib } as const;
/** To look at the disk costs nothing beside writing so much. */
const lookEveryBytes = 64 * 1024 ** 2;

type Chunks = AsyncIterable<Buffer>;

/** Of one image, or one layer of a stack: all that is unpacked at a time. Failures are `exhausted`. */
export class ImageRoom {
  readonly #disk: () => Promise<{ usedBytes: number; freeBytes: number }>;
  readonly #limits: { layerBytes: number; imageBytes: number };
  #unpackedBytes = 0;
  #unseenBytes = 0;

  constructor(options: {
    /** Where it is unpacked. */
    dir: string;
    limits?: { layerBytes: number; imageBytes: number };
    disk?: () => Promise<{ usedBytes: number; freeBytes: number }>;
  }) {
    this.#disk = options.disk ?? (async () => diskUseOf(await statfs(options.dir)));
    this.#limits = options.limits ?? imageLimits;
  }

  /** The layer's bytes as they are stored, passed on. */
  async *stored(chunks: Chunks, digest: string): AsyncGenerator<Buffer> {
    let bytes = 0;
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > this.#limits.layerBytes) throw tooLarge(`the layer ${digest}`, this.#limits.layerBytes);
      await this.#note(chunk.length);
      yield chunk;
    }
  }

  /** The layer's bytes as they are unpacked, passed on. The engine is about to have them as well. */
  async *unpacked(chunks: Chunks, digest: string): AsyncGenerator<Buffer> {
    const { layerBytes, imageBytes } = this.#limits;
    let bytes = 0;
    for await (const chunk of chunks) {
      bytes += chunk.length;
      this.#unpackedBytes += chunk.length;
      if (bytes > layerBytes) throw tooLarge(`the layer ${digest}, unpacked,`, layerBytes);
      if (this.#unpackedBytes > imageBytes) throw tooLarge('the image, unpacked,', imageBytes);
      await this.#note(chunk.length);
      yield chunk;
    }
  }

  /** Before anything is fetched, and every so many bytes: at the watermark where the host takes no more jobs, it ends. */
  async look(): Promise<void> {
    this.#unseenBytes = 0;
    const { usedBytes, freeBytes } = await this.#disk();
    const usedPercent = Math.floor((100 * (usedBytes + this.#unpackedBytes)) / (usedBytes + freeBytes));
    if (usedPercent < watermarks.full) return;
    throw new FlynnError(
      'exhausted',
      `the disk of this host has no room for the image: ${usedPercent} % of it would be in use, and from ${watermarks.full} % on it takes no jobs; free some, or run the job on another host`,
    );
  }

  async #note(bytes: number): Promise<void> {
    this.#unseenBytes += bytes;
    if (this.#unseenBytes >= lookEveryBytes) await this.look();
  }
}

function tooLarge(what: string, limitBytes: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `${what} has more than ${sizeText(limitBytes)}, the most there may be: make the image smaller, and keep what is large in a volume`,
  );
}

function sizeText(bytes: number): string {
  return bytes >= gib ? `${bytes / gib} GiB` : `${bytes / 1024 ** 2} MiB`;
}
