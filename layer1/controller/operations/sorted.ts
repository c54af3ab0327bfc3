/** Arrays kept in order. `compare` is a total order: equal means the same. */

export function insert<T>(sorted: T[], item: T, compare: (a: T, b: T) => number): void {
  sorted.splice(placeOf(sorted, item, compare), 0, item);
}

/** Undefined if it is not there. */
export function indexOf<T>(sorted: readonly T[], item: T, compare: (a: T, b: T) => number): number | undefined {
  const at = placeOf(sorted, item, compare);
  const found = sorted[at];
  return found !== undefined && compare(found, item) === 0 ? at : undefined;
}

function placeOf<T>(sorted: readonly T[], item: T, compare: (a: T, b: T) => number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const one = sorted[middle];
    if (one !== undefined && compare(one, item) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
