/** Which backend gets the next request? */

export type Candidate = { readonly inFlight: number; readonly avoidUntilMs: number };

/**
 * The less busy of two chosen at random (Mitzenmacher 2001): nearly as even as asking all, and a backend that has just
 * come is not flooded by everyone at once. Those that were tried already are left out; those that lately could not be
 * reached are taken only if there are no others.
 */
export function pickBackend<B extends Candidate>(
  backends: readonly B[],
  options: { nowMs: number; random: () => number; tried?: ReadonlySet<B> },
): B | undefined {
  const { nowMs, random, tried } = options;
  const untried = tried === undefined ? backends : backends.filter((backend) => !tried.has(backend));
  const reachable = untried.filter((backend) => backend.avoidUntilMs <= nowMs);
  const from = reachable.length > 0 ? reachable : untried;
  const first = Math.floor(random() * from.length);
  // Of the others, so that two are always two.
  const second = (first + 1 + Math.floor(random() * (from.length - 1))) % Math.max(1, from.length);
  const [a, b] = [from[first], from[second]];
  if (a === undefined || b === undefined) return a;
  return b.inFlight < a.inFlight ? b : a;
}
