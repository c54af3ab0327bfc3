/**
 * The 48-bit linear congruential generator of `java.util.Random` (its documentation gives the algorithm), as two halves of 24
 * bits.
 */
const half = 0x100_0000;
const multiplierHigh = 0x5de;
const multiplierLow = 0xece66d;

export class Lcg {
  #high: number;
  #low: number;

  constructor(seed: number) {
    this.#high = (Math.floor(seed / half) ^ multiplierHigh) & (half - 1);
    this.#low = (seed % half) ^ multiplierLow;
  }

  /** Uniform in 0 … bound − 1; bound is at most 2^31 − 1. */
  nextInt(bound: number): number {
    if ((bound & (bound - 1)) === 0) return Math.floor((bound * this.#next31()) / 0x8000_0000);
    for (;;) {
      const bits = this.#next31();
      const value = bits % bound;
      if (bits - value + bound - 1 < 0x8000_0000) return value;
    }
  }

  /** In [0, 1). */
  next(): number {
    return this.#next31() / 0x8000_0000;
  }

  #next31(): number {
    const low = this.#low * multiplierLow + 0xb;
    this.#high = (this.#high * multiplierLow + this.#low * multiplierHigh + Math.floor(low / half)) % half;
    this.#low = low % half;
    return this.#high * 128 + Math.floor(this.#low / 0x2_0000);
  }
}
