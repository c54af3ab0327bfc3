/** Which backend gets the next request? */

export type Candidate = { readonly inFlight: number; isUsable(nowMs: number): boolean };

const nobody: readonly never[] = [];

/**
 * The less busy of two chosen at random (Mitzenmacher 2001): nearly as even as asking all, and a backend that has just
 * come is not flooded by everyone at once. Those that were tried already are left out; those that lately failed are taken
 * only if there are no others.
 */
export function chooseBackend<B extends Candidate>(
  backends: readonly B[],
  nowMs: number,
  random: () => number,
  tried: readonly B[] = nobody,
): B | undefined {
  if (tried.length === 0) {
    if (backends.length <= 1) return backends[0];
    const [a, b] = twoOf(backends, random);
    // Two usable ones of all are also two usable ones of the usable; only if one is not, the others are looked through.
    if (a !== undefined && b !== undefined && a.isUsable(nowMs) && b.isUsable(nowMs)) return lessBusy(a, b);
  }
  const untried = tried.length === 0 ? backends : backends.filter((backend) => !tried.includes(backend));
  const usable = untried.filter((backend) => backend.isUsable(nowMs));
  const [a, b] = twoOf(usable.length > 0 ? usable : untried, random);
  return a === undefined || b === undefined ? a : lessBusy(a, b);
}

function twoOf<B>(from: readonly B[], random: () => number): [first: B | undefined, second: B | undefined] {
  if (from.length <= 1) return [from[0], undefined];
  const first = Math.floor(random() * from.length);
  // Of the others, so that two are always two.
  const second = (first + 1 + Math.floor(random() * (from.length - 1))) % from.length;
  return [from[first], from[second]];
}

function lessBusy<B extends Candidate>(a: B, b: B): B {
  return b.inFlight < a.inFlight ? b : a;
}
