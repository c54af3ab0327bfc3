/** Virtual time: what happens when, in the order of time and, at one time, of being said. */
type Item = { at: number; order: number; run: () => void };

export class Agenda {
  readonly #heap: Item[] = [];
  #order = 0;
  #now = 0;

  /** Seconds. */
  get now(): number {
    return this.#now;
  }

  after(delay: number, run: () => void): void {
    const heap = this.#heap;
    const item = { at: this.#now + delay, order: this.#order++, run };
    let at = heap.push(item) - 1;
    while (at > 0) {
      const parent = heap[(at - 1) >> 1];
      if (parent === undefined || isBefore(parent, item)) break;
      heap[at] = parent;
      at = (at - 1) >> 1;
    }
    heap[at] = item;
  }

  /** Runs until time has passed `end`: as in Omega's simulator the first thing after it still happens, the rest never. */
  runPast(end: number): void {
    while (this.#now <= end) {
      const item = this.#take();
      if (item === undefined) break;
      this.#now = item.at;
      item.run();
    }
  }

  #take(): Item | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    let at = 0;
    for (;;) {
      const left = heap[2 * at + 1];
      const right = heap[2 * at + 2];
      const isRight = left !== undefined && right !== undefined && isBefore(right, left);
      const child = isRight ? right : left;
      if (child === undefined || isBefore(last, child)) break;
      heap[at] = child;
      at = 2 * at + (isRight ? 2 : 1);
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Item, b: Item): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
