/** What people who are no admins must not lead connections of the platform to: hosts, and the subnets of their containers. */
import { leasePrefix, leaseSchema } from '@flynn/host-agent/network/lease';
import type { Deps } from '../deps.ts';

export async function insideNetworks(
  { store, cell }: Pick<Deps, 'store' | 'cell'>,
  signal: AbortSignal,
): Promise<string[]> {
  const { entries } = await store.list(leasePrefix, { signal });
  const leases = entries.flatMap(({ value }) => leaseSchema.safeParse(JSON.parse(value)).data ?? []);
  const hosts = [...cell.hosts.snapshot.entries.values()].map(({ value }) => value.address);
  return [...new Set([...hosts, ...leases.flatMap(({ address, subnet }) => [address, subnet])])];
}
