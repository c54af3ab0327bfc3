/** A hash table of row numbers whose keys are in the rows themselves: four bytes an entry, two thirds full at most. */

/** INVARIANTS. Linear probing without holes: a row is found by walking from its hash's place to the first empty one. */
export class RowIndex {
  readonly #hashOf: (row: number) => number;
  /** Row + 1; 0 is empty. */
  #places = new Uint32Array(64);
  #count = 0;

  constructor(hashOf: (row: number) => number) {
    this.#hashOf = hashOf;
  }

  get byteLength(): number {
    return this.#places.byteLength;
  }

  /** -1 when there is none. */
  find(hash: number, isIt: (row: number) => boolean): number {
    const mask = this.#places.length - 1;
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const place = this.#places[at] ?? 0;
      if (place === 0) return -1;
      if (isIt(place - 1)) return place - 1;
    }
  }

  /** The row's key is in its columns by now. */
  add(row: number): void {
    if ((this.#count + 1) * 3 > this.#places.length * 2) this.#grow();
    this.#count += 1;
    this.#put(row);
  }

  /** The row's key is still in its columns. */
  remove(row: number): void {
    const mask = this.#places.length - 1;
    let at = this.#hashOf(row) & mask;
    while (this.#places[at] !== row + 1) {
      if (this.#places[at] === 0) return;
      at = (at + 1) & mask;
    }
    this.#count -= 1;
    // What was pushed past the place moves back into it.
    let hole = at;
    for (let next = (at + 1) & mask; ; next = (next + 1) & mask) {
      const place = this.#places[next] ?? 0;
      if (place === 0) break;
      const home = this.#hashOf(place - 1) & mask;
      if (((next - home) & mask) < ((next - hole) & mask)) continue;
      this.#places[hole] = place;
      hole = next;
    }
    this.#places[hole] = 0;
  }

  #put(row: number): void {
    const mask = this.#places.length - 1;
    let at = this.#hashOf(row) & mask;
    while (this.#places[at] !== 0) at = (at + 1) & mask;
    this.#places[at] = row + 1;
  }

  #grow(): void {
    const before = this.#places;
    this.#places = new Uint32Array(before.length * 2);
    for (const place of before) if (place !== 0) this.#put(place - 1);
  }
}

export function mixHash(a: number, b: number, c: number): number {
  let hash = Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b) ^ Math.imul(c, 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}
