/** One's own copies on their way from one place to another, a disk and a bucket, while they are served and more come. */
import type { Readable } from 'node:stream';
import { pause } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Blob, Lack } from './api.ts';
import { Comparison } from './comparison.ts';
import { Copying } from './copying.ts';
import { isLater, mergedPage } from './replica.ts';
import type { Held, OwnReplica, Pointer, Removal } from './replica.ts';
import { removedSince } from './spool.ts';
import type { Page } from './storage.ts';

type Limits = { signal?: AbortSignal | undefined };

const againMs = 10_000;
/** What takes long, because there is much to compare, is done again after so many times as long. */
const restShare = 3;
const longestMs = 600_000;

/**
 * INVARIANTS. What is new is kept in the new place only, what is used or removed is so in both: so the old one has nothing
 * that is not in the new one once one comparison lacked nothing, and only then it is left. It is never written to otherwise.
 */
export class Moving implements OwnReplica {
  readonly #to: OwnReplica;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #comparison: Comparison;
  readonly #onMoved: () => Promise<void>;
  /** `to` and `from`, then `to` alone. */
  #places: readonly OwnReplica[];
  readonly name: string;

  /** `names`: of both places, for people. `onMoved`: remembers that; it may be called again after a power cut. */
  constructor(options: {
    to: OwnReplica;
    from: OwnReplica;
    names: { to: string; from: string };
    clock: Clock;
    log: Logger;
    bytesPerSecond: number;
    onMoved: () => Promise<void>;
  }) {
    const { to, from, names, clock, log, bytesPerSecond } = options;
    const deps = { own: to, peers: () => [{ host: names.from, replica: from }], clock, log };
    this.#to = to;
    this.#clock = clock;
    this.#log = log;
    this.#onMoved = options.onMoved;
    this.#places = [to, from];
    this.name = names.to;
    this.#comparison = new Comparison(deps, new Copying(deps, { bytesPerSecond }));
  }

  /** What is yet to come, as far as it is known; undefined when nothing is. */
  get left(): Lack | undefined {
    return this.#places.length === 1 ? undefined : this.#comparison.missing.told;
  }

  /** Resolves when all has moved, or the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.left !== undefined) {
      const beganMs = this.#clock.now();
      try {
        if (await this.#comparison.compare(signal)) {
          await this.#onMoved();
          this.#places = [this.#to];
          this.#log.info(`all blobs are in ${this.name} now`);
          return;
        }
      } catch (error) {
        if (!signal.aborted) this.#log.warn(`moving blobs to ${this.name}: ${messageOf(error)}; trying again`);
      }
      // However the clock was set meanwhile.
      const restMs = Math.min(longestMs, Math.max(againMs, (this.#clock.now() - beganMs) * restShare));
      await pause(restMs, signal, this.#clock);
    }
  }

  put(body: AsyncIterable<Uint8Array>, options: Limits & { digest?: string | undefined }): Promise<Held> {
    return this.#to.put(body, options);
  }

  async copy(held: Pick<Held, 'digest' | 'usedAt'>, body: AsyncIterable<Uint8Array>, options?: Limits): Promise<Held> {
    if (held.usedAt < ((await this.removedBefore(held.digest)) ?? 0)) throw removedSince(held.digest);
    return this.#to.copy(held, body, options);
  }

  async open(digest: string, options?: Limits & { from?: number }): Promise<{ sizeBytes: number; body: Readable }> {
    const [, from] = this.#places;
    try {
      return await this.#to.open(digest, options);
    } catch (error) {
      if (from === undefined || !hasCode(error, 'not_found')) throw error;
    }
    return from.open(digest, options);
  }

  async find(digest: string, options?: Limits): Promise<Held | undefined> {
    const found = await this.#all((place) => place.find(digest, options));
    return greatest(found, ({ usedAt }) => usedAt);
  }

  async use(digest: string, at: number, options?: Limits): Promise<Blob | undefined> {
    return (await this.#all((place) => place.use(digest, at, options)))[0];
  }

  async remove(removal: Removal, options?: Limits): Promise<boolean> {
    const held = await this.find(removal.digest, options);
    if (held !== undefined && held.usedAt >= removal.before) return false;
    return !(await this.#all((place) => place.remove(removal, options))).includes(false);
  }

  async removedBefore(digest: string): Promise<number | undefined> {
    return greatest(await this.#all((place) => place.removedBefore(digest)), (before) => before);
  }

  async list(page: Page, options?: Limits): Promise<Held[]> {
    return mergedPage(await this.#all((place) => place.list(page, options)), {
      limit: page.limit,
      keyOf: ({ digest }) => digest,
      merge: (one, other) => (one.usedAt >= other.usedAt ? one : other),
    });
  }

  /** One place remembers as removed what was put again in the other. */
  async removals({ after, limit }: Page, options?: Limits): Promise<Removal[]> {
    const found: Removal[] = [];
    for (let from = after; found.length < limit;) {
      const pages = await this.#all((place) => place.removals({ after: from, limit }, options));
      const removals = mergedPage(pages, {
        limit,
        keyOf: ({ digest }) => digest,
        merge: (one, other) => (one.before >= other.before ? one : other),
      });
      for (const removal of removals) {
        const held = await this.find(removal.digest, options);
        if (held === undefined || held.usedAt < removal.before) found.push(removal);
      }
      from = removals.at(-1)?.digest ?? from;
      if (removals.length < limit) break;
    }
    return found.slice(0, limit);
  }

  async pointer(name: string, options?: Limits): Promise<Pointer | undefined> {
    const pointers = await this.#all((place) => place.pointer(name, options));
    return pointers.reduce<Pointer | undefined>((one, other) => (isLater(other, one) ? other : one), undefined);
  }

  async point(pointer: Pointer, options?: Limits): Promise<void> {
    if (isLater(pointer, await this.pointer(pointer.name, options))) await this.#to.point(pointer, options);
  }

  async pointers(page: Page, options?: Limits): Promise<Pointer[]> {
    return mergedPage(await this.#all((place) => place.pointers(page, options)), {
      limit: page.limit,
      keyOf: ({ name }) => name,
      merge: (one, other) => (isLater(other, one) ? other : one),
    });
  }

  /** What each place has to say, the new one first. */
  async #all<T>(ask: (place: OwnReplica) => Promise<T | undefined>): Promise<T[]> {
    const answers = await Promise.all(this.#places.map(ask));
    return answers.filter((answer) => answer !== undefined);
  }
}

function greatest<T>(values: readonly T[], of: (value: T) => number): T | undefined {
  return values.reduce<T | undefined>(
    (one, other) => (one === undefined || of(other) > of(one) ? other : one),
    undefined,
  );
}
