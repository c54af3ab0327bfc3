/** A set of lines, each by 64 bits of its digest: 13 to 22 bytes of memory, where a set of strings takes a hundred. */
import { hash } from 'node:crypto';

export type Fingerprint = Readonly<{ high: number; low: number }>;

const smallest = 64;

/** That a line is taken for one of 20,000 others comes about once in 10^15. */
export function fingerprintOf(bytes: Buffer): Fingerprint {
  const digest = hash('sha1', bytes, 'buffer');
  const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
  // What is empty has neither.
  return { high, low: high === 0 && low === 0 ? 1 : low };
}

export class Fingerprints {
  /** Pairs, each where its `low` leads to or the next free place behind. A power of two of them, at most three quarters taken. */
  #words = new Uint32Array(2 * smallest);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(one: Fingerprint): boolean {
    return !this.#isFree(this.#placeOf(one));
  }

  add(one: Fingerprint): void {
    const place = this.#placeOf(one);
    if (!this.#isFree(place)) return;
    this.#put(place, one);
    this.#size += 1;
    if (this.#size * 8 > this.#words.length * 3) this.#grow();
  }

  #grow(): void {
    const former = this.#words;
    this.#words = new Uint32Array(2 * former.length);
    for (let at = 0; at < former.length; at += 2) {
      const one = { high: former[at] ?? 0, low: former[at + 1] ?? 0 };
      if (one.high !== 0 || one.low !== 0) this.#put(this.#placeOf(one), one);
    }
  }

  #put(place: number, { high, low }: Fingerprint): void {
    this.#words[place] = high;
    this.#words[place + 1] = low;
  }

  #isFree(place: number): boolean {
    return this.#words[place] === 0 && this.#words[place + 1] === 0;
  }

  /** Where it is, or would be. */
  #placeOf({ high, low }: Fingerprint): number {
    const words = this.#words;
    const mask = words.length / 2 - 1;
    for (let index = low & mask; ; index = (index + 1) & mask) {
      const place = 2 * index;
      if (this.#isFree(place) || (words[place] === high && words[place + 1] === low)) return place;
    }
  }
}
