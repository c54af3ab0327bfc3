/**
 * Under which markers is a package installed? Whatever leads to it has conditions of its own: all of one way have to hold, of any
 * way.
 */

/** Markers that all have to hold; none: always. */
type Way = ReadonlySet<string>;

/** With each package that has several they may double. Of more than this, what all of them have is condition enough. */
const mostWays = 32;

export class Conditions {
  #ways: Way[] = [];

  /** What it says that is new, for what is led to from there. */
  add(way: Way): Way | undefined {
    if (this.#ways.some((known) => known.isSubsetOf(way))) return undefined;
    this.#ways = [...this.#ways.filter((known) => !way.isSubsetOf(known)), way];
    if (this.#ways.length <= mostWays) return way;
    const common = this.#ways.reduce((some, others) => some.intersection(others));
    this.#ways = [common];
    return common;
  }

  /** As a marker; undefined where it is installed always. */
  get text(): string | undefined {
    if (this.#ways.some((way) => way.size === 0)) return undefined;
    const ways = this.#ways.map((way) => [...way].map((marker) => `(${marker})`).join(' and '));
    return ways.length === 1 ? ways[0] : ways.map((way) => `(${way})`).join(' or ');
  }
}

export function narrowed(way: Way, marker: string | undefined): Way {
  return marker === undefined || marker === '' ? way : new Set([...way, marker]);
}

export const always: Way = new Set();
