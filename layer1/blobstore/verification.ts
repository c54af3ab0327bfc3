/** Reads a store's copies now and then, and replaces from another store what the disk damaged. */
import { createHash } from 'node:crypto';
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Lack } from './api.ts';
import type { Copying, CopyingDeps } from './copying.ts';
import { Lacks } from './lacks.ts';
import { paced } from './pace.ts';
import { allOf } from './replica.ts';
import { Upkeep } from './upkeep.ts';

const everyMs = 24 * 3_600_000;
/** A start has more to do. */
const firstMs = 600_000;
const bytesPerSecond = 8 * 1024 ** 2;
/** What could not be replaced is tried again: the store that has it may only have been busy. */
const retryMs = 30_000;
/** Other stores are asked each time; one's own copy, which somebody may have stored again, is read no more often than this. */
const rereadMs = 3_600_000;

export class Verification {
  readonly #deps: CopyingDeps;
  readonly #copying: Copying;
  readonly #upkeep: Upkeep;
  readonly #readsAll: boolean;
  readonly #verifiedMs = new Map<string, number>();
  /** When what is damaged was read last. */
  readonly #foundBadMs = new Map<string, number>();
  readonly damaged = new Lacks();
  readonly #replaced = new Lacks();
  readonly counts = { read: 0, replaced: 0 };
  #completeMs: number | undefined;

  /** Without `readsAll` only what is suspect is looked at: reading all of it is not for nothing, and somebody else does it. */
  constructor(deps: CopyingDeps, copying: Copying, { readsAll }: { readsAll: boolean }) {
    this.#deps = deps;
    this.#copying = copying;
    this.#readsAll = readsAll;
    this.#upkeep = new Upkeep({
      ...deps,
      name: 'reading all blobs',
      firstMs,
      everyMs,
      all: async (signal) => {
        if (readsAll) await this.verify(signal);
        return everyMs;
      },
      one: (digest, signal) => this.#look(digest, signal),
    });
  }

  /** Those of the last day. */
  get replaced(): Lack {
    this.#replaced.forgetBefore(this.#deps.clock.now() - everyMs);
    return this.#replaced.told;
  }

  /** When all had last been read. */
  get completeMs(): number | undefined {
    return this.#completeMs;
  }

  /** Somebody reads it: it is looked at too, unless it was within a day. */
  onRead(digest: string): void {
    if (!this.#readsAll) return;
    if (this.#deps.clock.now() - (this.#verifiedMs.get(digest) ?? -Infinity) >= everyMs) this.#upkeep.ask(digest);
  }

  /** Somebody was given other bytes than those of that digest. */
  suspect(digest: string): void {
    if (!this.damaged.digests.includes(digest)) this.#upkeep.ask(digest);
  }

  /** Another store came: it may have what could not be replaced. */
  retryDamaged(): void {
    for (const digest of this.damaged.digests) this.#upkeep.ask(digest);
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#upkeep.run(signal), this.#retry(signal)]);
  }

  async #retry(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(retryMs, signal, this.#deps.clock);
      this.retryDamaged();
    }
  }

  async verify(signal: AbortSignal): Promise<void> {
    const { own, clock } = this.#deps;
    const there = new Map<string, unknown>();
    for await (const held of allOf(
      (page) => own.list(page),
      ({ digest }) => digest,
    )) {
      there.set(held.digest, held);
      await this.#look(held.digest, signal);
      await this.#upkeep.serveAsked(signal);
      if (signal.aborted) return;
    }
    this.damaged.keepOnly(there);
    for (const times of [this.#verifiedMs, this.#foundBadMs]) {
      for (const digest of times.keys()) if (!there.has(digest)) times.delete(digest);
    }
    this.#completeMs = clock.now();
  }

  async #look(digest: string, signal: AbortSignal): Promise<void> {
    const { own, clock, log } = this.#deps;
    const held = await own.find(digest);
    const badForMs = clock.now() - (this.#foundBadMs.get(digest) ?? -Infinity);
    const isKnownBad = badForMs >= 0 && badForMs < rereadMs;
    const isGood = held === undefined || (!isKnownBad && (await this.#isIntact(digest, signal)));
    if (signal.aborted) return;
    if (isGood) {
      this.damaged.delete(digest);
      this.#foundBadMs.delete(digest);
      if (held !== undefined) this.#verifiedMs.set(digest, clock.now());
      return;
    }
    const isNew = !this.damaged.digests.includes(digest);
    this.damaged.add(held, clock.now());
    if (!isKnownBad) this.#foundBadMs.set(digest, clock.now());
    if (await this.#copying.takeFromAny(digest, signal)) {
      this.damaged.delete(digest);
      this.#foundBadMs.delete(digest);
      this.#verifiedMs.set(digest, clock.now());
      this.counts.replaced += 1;
      this.#replaced.add(held, clock.now());
      log.warn({ digest }, `the blob ${digest} was damaged where it is kept: it was replaced from another store`);
    } else if (isNew && !signal.aborted) {
      log.error(
        { digest },
        `the blob ${digest} is damaged where it is kept, and no other store has it: store it again`,
      );
    }
  }

  async #isIntact(digest: string, signal: AbortSignal): Promise<boolean> {
    const { own, clock, log } = this.#deps;
    const hash = createHash('sha256');
    try {
      const { body } = await own.open(digest);
      for await (const chunk of paced(body, { bytesPerSecond, clock, signal })) hash.update(chunk);
    } catch (error) {
      // Removed meanwhile, nothing is damaged; what cannot be read is.
      if (hasCode(error, 'not_found')) return true;
      if (!signal.aborted) log.warn(`cannot read the blob ${digest}: ${messageOf(error)}`);
      return false;
    }
    this.counts.read += 1;
    return `sha256:${hash.digest('hex')}` === digest;
  }
}
