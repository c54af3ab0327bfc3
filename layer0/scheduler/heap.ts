/** A binary heap: the least by `isBefore` comes first. */
export class Heap<T> {
  readonly #items: T[] = [];
  readonly #isBefore: (a: T, b: T) => boolean;

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    let at = this.#items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfBefore(at, parent)) break;
      at = parent;
    }
  }

  pop(): T | undefined {
    const [top] = this.#items;
    const last = this.#items.pop();
    if (last === undefined || this.#items.length === 0) return top;
    this.#items[0] = last;
    for (let at = 0; ;) {
      const left = 2 * at + 1;
      const child = this.#isLess(left + 1, left) ? left + 1 : left;
      if (!this.#swapIfBefore(child, at)) return top;
      at = child;
    }
  }

  /** Everything, in no order; the heap is empty then. */
  drain(): T[] {
    return this.#items.splice(0);
  }

  #isLess(a: number, b: number): boolean {
    const one = this.#items[a];
    const other = this.#items[b];
    return one !== undefined && other !== undefined && this.#isBefore(one, other);
  }

  #swapIfBefore(a: number, b: number): boolean {
    const one = this.#items[a];
    const other = this.#items[b];
    if (one === undefined || other === undefined || !this.#isBefore(one, other)) return false;
    this.#items[a] = other;
    this.#items[b] = one;
    return true;
  }
}
