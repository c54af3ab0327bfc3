/**
 * How much may an image take while it is brought here? What a layer unpacks to is nobody's word: a few hundred kilobytes may become
 * any number of bytes.
 */
import { FlynnError } from '@flynn/kit/errors';
import type { ImageDisks } from './disks.ts';

const gib = 1024 ** 3;
export const imageLimits = { layerBytes: 10 * gib, imageBytes: 20 * gib } as const;
/** To look at the disks costs nothing beside writing so much. */
const lookEveryBytes = 64 * 1024 ** 2;

type Chunks = AsyncIterable<Buffer>;

/** Of one image, until the engine has it. Failures are `exhausted`. */
export class ImageRoom implements Disposable {
  readonly #disks: ImageDisks;
  readonly #limits: { layerBytes: number; imageBytes: number };
  #imageBytes: number;
  #comingBytes = 0;
  #unseenBytes = 0;

  constructor(options: {
    disks: ImageDisks;
    /** What the engine has of it. */
    presentBytes?: number;
    limits?: { layerBytes: number; imageBytes: number };
  }) {
    this.#disks = options.disks;
    this.#limits = options.limits ?? imageLimits;
    this.#imageBytes = options.presentBytes ?? 0;
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

  /** The layer's bytes as they are unpacked, passed on. */
  async *unpacked(chunks: Chunks, digest: string): AsyncGenerator<Buffer> {
    const { layerBytes } = this.#limits;
    let bytes = 0;
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > layerBytes) throw tooLarge(`the layer ${digest}, unpacked,`, layerBytes);
      this.expect(chunk.length);
      await this.#note(chunk.length);
      yield chunk;
    }
  }

  /** The engine is about to have so much of it. */
  expect(bytes: number): void {
    const { imageBytes } = this.#limits;
    this.#imageBytes += bytes;
    if (this.#imageBytes > imageBytes) throw tooLarge('the image, unpacked,', imageBytes);
    this.#comingBytes += bytes;
    this.#disks.expect(bytes);
  }

  /** Before anything is fetched, every so many bytes, and before the engine is given it. */
  async look(): Promise<void> {
    this.#unseenBytes = 0;
    await this.#disks.look();
  }

  async #note(bytes: number): Promise<void> {
    this.#unseenBytes += bytes;
    if (this.#unseenBytes >= lookEveryBytes) await this.look();
  }

  [Symbol.dispose](): void {
    this.#disks.expect(-this.#comingBytes);
    this.#comingBytes = 0;
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
