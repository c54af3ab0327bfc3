/**
 * Who is next at what is done for one at a time? Those of a group in their order, and the groups by turns: a crowd keeps its own
 * waiting.
 */

/** INVARIANT. At most one has its turn. A group that nobody of waits is not known. */
export class Turns {
  /** The group whose turn is next first. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isTaken = false;

  /** What `act` says, once it had its turn. The caller bounds how many wait. */
  async take<T>(group: string, act: () => Promise<T>): Promise<T> {
    if (this.#isTaken) await this.#wait(group);
    this.#isTaken = true;
    try {
      return await act();
    } finally {
      this.#next();
    }
  }

  #wait(group: string): Promise<void> {
    return new Promise((resolve) => {
      const others = this.#waiting.get(group);
      if (others === undefined) this.#waiting.set(group, [resolve]);
      else others.push(resolve);
    });
  }

  /** It stays taken where somebody waits: who comes in between waits too. */
  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) {
      this.#isTaken = false;
      return;
    }
    const [group, others] = first;
    const begin = others.shift();
    this.#waiting.delete(group);
    if (others.length > 0) this.#waiting.set(group, others);
    begin?.();
  }
}
