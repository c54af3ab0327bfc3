/** Which backend gets a connection that may last for days? */
import type { Candidate } from '../policy/choice.ts';

/**
 * The one with the fewest; chance decides between several. Those that were tried already are left out, those that lately
 * could not be reached are taken only if there are no others.
 */
export function fewestConnections<B extends Candidate>(
  backends: readonly B[],
  options: { nowMs: number; random: () => number; tried: ReadonlySet<B> },
): B | undefined {
  const { nowMs, random, tried } = options;
  const untried = backends.filter((backend) => !tried.has(backend));
  const reachable = untried.filter((backend) => backend.isUsable(nowMs));
  const from = reachable.length > 0 ? reachable : untried;
  const fewest = Math.min(...from.map(({ inFlight }) => inFlight));
  const least = from.filter(({ inFlight }) => inFlight === fewest);
  return least[Math.floor(random() * least.length)];
}
