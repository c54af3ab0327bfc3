/** The ring as one process knows it. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { raceAbort } from '@flynn/kit/retry';
import type { CallOptions, Store } from '../store.ts';
import { sealKeyOf } from './envelope.ts';
import type { SealKey } from './envelope.ts';
import { keysOf, readRing } from './ring.ts';

/** Nobody writes with a key that was replaced longer ago than this. */
export const freshMs = 30_000;

/** None where this process has none; two while the sealing key is made anew. Asked whenever the ring is read. */
export type ReadSealingKeys = () => Promise<readonly string[]>;

/**
 * INVARIANTS. What `current` answers was the ring's at most `freshMs` ago. A key that was known stays known: what is under
 * way with a key that is retired, a listing at an older revision say, still opens.
 */
export class KnownKeys {
  readonly #store: Pick<Store, 'get'>;
  readonly #readSealingKeys: ReadSealingKeys;
  readonly #now: () => number;
  readonly #keys = new Map<string, SealKey>();
  #current: SealKey | undefined;
  #readAt = -Infinity;
  #reading: Promise<void> | undefined;
  /** Begins when the one under way is done. */
  #next: Promise<void> | undefined;

  /** `now` in milliseconds, of a clock that never goes back. */
  constructor(options: { store: Pick<Store, 'get'>; sealingKeys: ReadSealingKeys; now: () => number }) {
    this.#store = options.store;
    this.#readSealingKeys = options.sealingKeys;
    this.#now = options.now;
  }

  get(id: string): SealKey | undefined {
    return this.#keys.get(id);
  }

  /** What to seal with; undefined as long as nothing is sealed. */
  async current(options: CallOptions): Promise<SealKey | undefined> {
    if (this.#now() - this.#readAt > freshMs) await this.read(options);
    return this.#current;
  }

  /** What was asked for before this call does not count: it may not have seen what the caller has. */
  async read(options: CallOptions): Promise<void> {
    // Under nobody's signal: whoever goes away leaves the others' answer alone. The store bounds it.
    const reading = this.#next ?? (this.#reading === undefined ? this.#begin() : this.#after(this.#reading));
    await (options.signal === undefined ? reading : raceAbort(reading, options.signal));
  }

  #begin(): Promise<void> {
    this.#reading = this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  #after(reading: Promise<void>): Promise<void> {
    const begin = () => {
      this.#next = undefined;
      return this.#begin();
    };
    // Whether that one fails is told to those who wait for it.
    this.#next = reading.then(begin, begin);
    return this.#next;
  }

  async #read(): Promise<void> {
    try {
      await this.#readOnce();
    } catch (error) {
      if (!hasCode(error, 'denied')) throw error;
      // The sealing key may have been made anew after the ring was read, and the former be gone already.
      await this.#readOnce();
    }
  }

  async #readOnce(): Promise<void> {
    const askedAt = this.#now();
    const stored = await readRing(this.#store);
    if (stored === undefined) {
      this.#current = undefined;
    } else {
      const texts = await this.#readSealingKeys();
      if (texts.length === 0) {
        throw new FlynnError(
          'denied',
          `the cluster's secrets are sealed, and here is no key: ${eitherCommand('up')} brings it`,
        );
      }
      const keys = keysOf(stored.ring, texts.map(sealKeyOf));
      for (const [id, key] of keys) if (!this.#keys.has(id)) this.#keys.set(id, key);
      this.#current = this.#keys.get(stored.ring.current);
    }
    this.#readAt = askedAt;
  }
}
