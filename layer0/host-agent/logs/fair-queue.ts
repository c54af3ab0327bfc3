/** What waits for one taker, in lanes that take turns: however much waits in one, the next of another is never far. */

/** A lane may always hold so much, whatever the others hold. */
const reserved = 16;

type Lane<T> = { values: T[]; size: number };

/**
 * INVARIANTS. Values of a lane come out in the order they were pushed. At most `limit`, plus `reserved` for each lane: of
 * a lane that has too much its oldest go. Sizes are in units of the caller's, at least 1 each.
 */
export class FairQueue<T> {
  readonly #limit: number;
  readonly #sizeOf: (value: T) => number;
  /** In the order of their turns. */
  readonly #lanes = new Map<string, Lane<T>>();
  #size = 0;

  constructor(options: { limit: number; sizeOf: (value: T) => number }) {
    this.#limit = options.limit;
    this.#sizeOf = options.sizeOf;
  }

  get size(): number {
    return this.#size;
  }

  /** Whether who fills that lane should go on: half of the room is for the others. */
  hasRoom(lane: string): boolean {
    const size = this.#lanes.get(lane)?.size ?? 0;
    return size < reserved || (this.#size < this.#limit / 2 && size < this.#limit / 4);
  }

  /** Answers what had to go for it. */
  push(name: string, value: T): T[] {
    const lane = this.#lanes.get(name) ?? { values: [], size: 0 };
    this.#lanes.set(name, lane);
    lane.values.push(value);
    this.#resize(lane, this.#sizeOf(value));
    const dropped: T[] = [];
    while (lane.values.length > 1 && lane.size > reserved && this.#size > this.#limit) {
      const oldest = lane.values.shift();
      if (oldest === undefined) break;
      this.#resize(lane, -this.#sizeOf(oldest));
      dropped.push(oldest);
    }
    return dropped;
  }

  /** Up to that much, at least one if there is any: one of each lane in turn. */
  take(size: number): T[] {
    const taken: T[] = [];
    const heads = new Map<Lane<T>, number>();
    let left = size;
    // A lane put back comes again in the same round of the map.
    for (const [name, lane] of this.#lanes) {
      if (left <= 0) break;
      const head = heads.get(lane) ?? 0;
      const value = lane.values[head];
      this.#lanes.delete(name);
      if (value === undefined) continue;
      taken.push(value);
      heads.set(lane, head + 1);
      left -= this.#sizeOf(value);
      this.#resize(lane, -this.#sizeOf(value));
      if (head + 1 < lane.values.length) this.#lanes.set(name, lane);
    }
    for (const [lane, count] of heads) lane.values.splice(0, count);
    return taken;
  }

  #resize(lane: Lane<T>, by: number): void {
    lane.size += by;
    this.#size += by;
  }
}
