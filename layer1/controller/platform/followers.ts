/** Who follows logs through this controller: the places are few, and one person's tabs or scripts are not to take them all. */
import { FlynnError } from '@flynn/kit/errors';

const mostOfOne = 8;

export class Followers {
  readonly #counts = new Map<string, number>();

  /** Answers how the place is given back, once. `exhausted` if somebody has as many as one may have. */
  enter(who: string): () => void {
    const count = this.#counts.get(who) ?? 0;
    if (count >= mostOfOne) {
      throw new FlynnError(
        'exhausted',
        `you follow ${mostOfOne} logs already, as many as one may at a time: end one of them, or read without -f`,
      );
    }
    this.#counts.set(who, count + 1);
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      const left = (this.#counts.get(who) ?? 1) - 1;
      if (left === 0) this.#counts.delete(who);
      else this.#counts.set(who, left);
    };
  }
}
