/**
 * Under which markers is a package installed? Whatever leads to it has conditions of its own: all of one way have to hold, of any
 * way.
 */

/** Markers that all have to hold; none: always. */
type Way = ReadonlySet<string>;

export class Conditions {
  #ways: Way[] = [];

  /** Whether it says anything new. */
  add(way: Way): boolean {
    if (this.#ways.some((known) => [...known].every((marker) => way.has(marker)))) return false;
    this.#ways = [...this.#ways.filter((known) => ![...way].every((marker) => known.has(marker))), way];
    return true;
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
