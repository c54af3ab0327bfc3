/** Keeps the engine's disk from filling: images nobody needs go after a day, and at once when room is short. */
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { ContainerTable } from '../containers/table.ts';
import type { Engine, ImageInfo } from '../engine/engine.ts';
import { unusedImages } from '../images/gc.ts';
import type { ImageUses } from '../images/uses.ts';

/** Percent of the disk in use: collect hard from `high` down to `low`; from `full` on take no new jobs until `roomy`. */
export const watermarks = { high: 85, low: 75, full: 95, roomy: 90 } as const;
/** A disk can fill within a minute; to look at it costs nothing. */
const lookEveryMs = 15_000;
const collectEveryMs = 600_000;
const gentleGraceMs = 24 * 3_600_000;
const hardGraceMs = 600_000;

/**
 * INVARIANTS. Volumes are never touched. An image goes only while no container, assignment or resident job names it and
 * ten minutes after it was needed last; a start that needs it all the same makes or pulls it again.
 */
export class Cleaner {
  readonly #engine: Pick<Engine, 'listImages' | 'removeImage'>;
  readonly #containers: Pick<ContainerTable, 'all' | 'isCurrent'>;
  readonly #uses: ImageUses;
  readonly #cluster: string;
  readonly #named: () => Promise<ReadonlySet<string>>;
  readonly #usedPercent: () => Promise<number>;
  readonly #log: Logger;
  #isFull = false;
  #removed = 0;
  #removedBytes = 0;

  constructor(options: {
    engine: Pick<Engine, 'listImages' | 'removeImage'>;
    containers: Pick<ContainerTable, 'all' | 'isCurrent'>;
    uses: ImageUses;
    cluster: string;
    /** Images that assignments and resident jobs ask for by name. */
    named: () => Promise<ReadonlySet<string>>;
    /** Of the disk the engine keeps its files on. */
    usedPercent: () => Promise<number>;
    log: Logger;
  }) {
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#uses = options.uses;
    this.#cluster = options.cluster;
    this.#named = options.named;
    this.#usedPercent = options.usedPercent;
    this.#log = options.log;
  }

  /** Whether the host should get no new jobs. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Images removed so far, and what they were said to take: layers they shared are counted with each. */
  get removed(): { images: number; bytes: number } {
    return { images: this.#removed, bytes: this.#removedBytes };
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    let nextGentleMs = performance.now() + lookEveryMs;
    const step = async () => {
      if (this.#containers.isCurrent) {
        const isDue = performance.now() >= nextGentleMs;
        await this.look({ isDue, signal });
        if (isDue) nextGentleMs = performance.now() + collectEveryMs;
      }
      await pause(lookEveryMs, signal);
    };
    await forever('collecting images', step, { signal, log: this.#log });
  }

  /** One look at the disk, and what follows from it. */
  async look({ isDue, signal }: { isDue: boolean; signal: AbortSignal }): Promise<void> {
    const before = await this.#usedPercent();
    const isShort = before >= watermarks.high;
    if (isShort) this.#log.warn(`the engine's disk is ${before} % full: removing images nobody needs`);
    try {
      if (isShort) await this.#collect({ graceMs: hardGraceMs, downTo: watermarks.low, signal });
      else if (isDue) await this.#collect({ graceMs: gentleGraceMs, downTo: 0, signal });
    } finally {
      this.#note(isShort ? await this.#usedPercent() : before);
    }
  }

  #note(after: number): void {
    const isFull = after >= (this.#isFull ? watermarks.roomy : watermarks.full);
    if (isFull && !this.#isFull) this.#log.error(`the engine's disk is ${after} % full: this host takes no new jobs`);
    if (!isFull && this.#isFull) this.#log.info(`the engine's disk is ${after} % full: this host takes jobs again`);
    this.#isFull = isFull;
  }

  async #collect(options: { graceMs: number; downTo: number; signal: AbortSignal }): Promise<void> {
    const { graceMs, downTo, signal } = options;
    const pulled = new Set(this.#uses.pulled);
    const images = await this.#engine.listImages({ all: true, signal });
    const containers = this.#containers.all();
    const named = await this.#named();
    const inUse = images.filter(
      ({ id, refs }) => containers.some(({ imageId }) => imageId === id) || refs.some((ref) => named.has(ref)),
    );
    await this.#uses.note(images, { inUse: new Set(inUse.map(({ id }) => id)), pulled });
    const unused = unusedImages({
      images,
      containers,
      named,
      pulled: this.#uses.pulled,
      cluster: this.#cluster,
      idleMsOf: (id) => this.#uses.idleMsOf(id),
      graceMs,
    });
    for (const image of unused) {
      if (signal.aborted || (downTo > 0 && (await this.#usedPercent()) <= downTo)) return;
      await this.#remove(image, signal);
    }
  }

  async #remove(image: ImageInfo, signal: AbortSignal): Promise<void> {
    const { id, refs, sizeBytes } = image;
    try {
      // By its names: by its id the engine refuses one that has several.
      for (const name of refs.length === 0 ? [id] : refs) await this.#engine.removeImage(name, { signal });
      this.#removed += 1;
      this.#removedBytes += sizeBytes;
      this.#log.info({ refs, megabytes: Math.round(sizeBytes / 1e6) }, 'removed an image nobody needs');
    } catch (error) {
      // An engine that is away removes no other either.
      if (signal.aborted || hasCode(error, 'unavailable', 'timeout')) throw error;
      // Something came to need it meanwhile, or the engine cannot let go of it; the others can still go.
      const level = hasCode(error, 'conflict', 'not_found') ? 'debug' : 'warn';
      this.#log[level]({ refs }, `an image that seemed unused stays: ${messageOf(error)}`);
    }
  }
}
