/**
 * One thing at a time is done for each datastore: whoever does something for one has its turn meanwhile. In memory, for the one
 * worker that leads does all of it.
 */

/** Disposed of, the next may take it. */
export type Turn = Disposable &
  Readonly<{
    /** Aborts once somebody asked for it who is not to wait: what can be done again ends then. */
    wanted: AbortSignal;
  }>;

export class Turns {
  readonly #held = new Map<string, AbortController>();

  /** Undefined while somebody has it. */
  take(id: string): Turn | undefined {
    if (this.#held.has(id)) return undefined;
    const wanted = new AbortController();
    this.#held.set(id, wanted);
    return { wanted: wanted.signal, [Symbol.dispose]: () => void this.#held.delete(id) };
  }

  /** Whoever has it is told so. */
  askFor(id: string): void {
    this.#held.get(id)?.abort();
  }
}
