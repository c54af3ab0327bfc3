/** For how long does a request wait, and for what? */
import type { Backend } from '../backend.ts';
import type { Limits } from '../exchange.ts';
import type { Deadlines } from './deadlines.ts';

/** A client that has ended its side may still be there for the answer; most are not. */
const graceMs = 1_000;

export class Patience {
  readonly #deadlines: Deadlines;
  readonly #limits: Limits;
  readonly #totalEndMs: number;
  #stepEndMs = Infinity;
  #goneAtMs = Infinity;

  constructor(deadlines: Deadlines, limits: Limits) {
    this.#deadlines = deadlines;
    this.#limits = limits;
    this.#totalEndMs = limits.totalMs > 0 ? deadlines.after(limits.totalMs) : Infinity;
  }

  /** A byte moved; from here on the next is waited for, or the first of the answer. */
  touch(next: 'byte' | 'answer'): void {
    const { firstByteMs, idleMs } = this.#limits;
    this.#stepEndMs = this.#deadlines.after(next === 'answer' ? firstByteMs : idleMs);
    if (this.#goneAtMs !== Infinity) this.#goneAtMs = this.#deadlines.after(graceMs);
  }

  dial(backend: Pick<Backend, 'openMs'>): void {
    this.#stepEndMs = this.#deadlines.after(backend.openMs(this.#limits.dialMs));
  }

  /** Nobody else is waited for. */
  hold(): void {
    this.#stepEndMs = Infinity;
  }

  clientEnded(): void {
    this.#goneAtMs = this.#deadlines.after(graceMs);
  }

  /** What has taken too long: the client's silence after its end, the whole of the request, or what was last waited for. */
  overAt(nowMs: number): 'client' | 'total' | 'step' | undefined {
    if (nowMs > this.#goneAtMs) return 'client';
    if (nowMs > this.#totalEndMs) return 'total';
    return nowMs > this.#stepEndMs ? 'step' : undefined;
  }
}
