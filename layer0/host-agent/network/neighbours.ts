/** Where containers of other hosts are announced. Pure. */
import { firstOf, spanOf } from './addresses.ts';
import type { Lease } from './lease.ts';

/** `addresses`: each once, without the host's own. */
export type Neighbour = Readonly<{ hostId: string; addresses: readonly string[] }>;

/** Of these hosts, each with a part of the range that no other has. There may be thousands, with ten times as many addresses. */
export function neighboursOf(
  leases: readonly Pick<Lease, 'hostId' | 'subnet'>[],
  addresses: Iterable<string>,
): Neighbour[] {
  const parts = leases
    .map(({ hostId, subnet }) => ({ hostId, ...spanOf(subnet), own: firstOf(subnet), addresses: new Array<string>() }))
    .sort((a, b) => a.first - b.first);
  for (const address of new Set(addresses)) {
    const { first } = spanOf(address);
    const part = parts[lastUpTo(parts, first)];
    if (part !== undefined && first < part.first + part.size && address !== part.own) part.addresses.push(address);
  }
  return parts.map(({ hostId, addresses: found }) => ({ hostId, addresses: found }));
}

/** The place of the last that begins there or before; -1: none does. */
function lastUpTo(sorted: readonly { first: number }[], at: number): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((sorted[middle]?.first ?? Infinity) <= at) from = middle + 1;
    else to = middle;
  }
  return from - 1;
}
