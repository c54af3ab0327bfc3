/** By which way does this host reach each of the others? */
import { createHash } from 'node:crypto';
import type { Lease } from './lease.ts';
import type { NetworkSettings } from './state.ts';

export type Link = Readonly<
  { lease: Lease } & (
    | { way: 'direct'; via: string }
    | { way: 'vxlan' }
    /** `through` is the host that gets what is for it: itself, or one that passes it on. */
    | { way: 'wireguard'; through: string }
    /** What has to be encrypted, or has no other way, goes no other way. `why` says what to do, for people. */
    | { way: 'none'; why: string }
  )
>;

export type LinkInput = Readonly<{
  self: Pick<NetworkSettings, 'hostId' | 'site' | 'localAddress' | 'backend'>;
  /** Of all other hosts. */
  others: readonly Lease[];
  /** Whether an address is of a network that this host is in. */
  isNeighbour: (address: string) => boolean;
  /** Whom this host does not hear, by its lease: the others see the same there. */
  unheard: readonly string[];
}>;

const withoutKey =
  'it has no WireGuard key of its own: update flynn there; if its state directory is a copy of another host’s, remove tunnel.key there and restart its agent';
const withoutRelay =
  'both are behind NAT in different networks, and no host that all reach has a WireGuard key to pass on what they send: let such a host join, or update flynn on those there are';

export function linksOf(input: LinkInput): Link[] {
  return input.others.map((lease) => linkOf(lease, input));
}

function linkOf(lease: Lease, input: LinkInput): Link {
  const { self, isNeighbour } = input;
  const isBehindNat = self.site !== undefined || lease.site !== undefined;
  if (self.backend === 'wireguard') return areApart(self, lease) ? relayed(lease, input) : encrypted(lease);
  if (areTogether(self, lease)) {
    // A private network may be several, with a router between them: through that WireGuard gets, and a route does not. Nor does
    // one get through a network that drops addresses which it did not give; the tunnel in clear is between hosts with addresses.
    const { localAddress: via } = lease;
    const isOpen = self.backend !== 'vxlan' && via !== undefined && isNeighbour(via);
    return isOpen ? { lease, way: 'direct', via } : encrypted(lease);
  }
  if (areApart(self, lease)) return relayed(lease, input);
  if (isBehindNat) return encrypted(lease);
  if (self.backend === 'vxlan' || (self.backend === 'auto' && !isNeighbour(lease.address)))
    return { lease, way: 'vxlan' };
  return { lease, way: 'direct', via: lease.address };
}

type Whereabouts = Pick<Lease, 'site' | 'localAddress'>;

/** In one private network, where each knows the other's address. */
export function areTogether(a: Whereabouts, b: Whereabouts): boolean {
  return a.site !== undefined && a.site === b.site && a.localAddress !== undefined && b.localAddress !== undefined;
}

/** Both behind NAT, and neither reaches the other. */
export function areApart(a: Whereabouts, b: Whereabouts): boolean {
  return a.site !== undefined && b.site !== undefined && !areTogether(a, b);
}

function encrypted(lease: Lease): Link {
  if (lease.tunnelKey === undefined) return { lease, way: 'none', why: withoutKey };
  return { lease, way: 'wireguard', through: lease.hostId };
}

function relayed(lease: Lease, { self, others, unheard }: LinkInput): Link {
  if (lease.tunnelKey === undefined) return { lease, way: 'none', why: withoutKey };
  const relays = others.filter(({ site, tunnelKey }) => site === undefined && tunnelKey !== undefined);
  const ids = relays.map(({ hostId }) => hostId);
  const through = relayFor([self.hostId, lease.hostId], ids, new Set([...unheard, ...(lease.unheard ?? [])]));
  return through === undefined ? { lease, way: 'none', why: withoutRelay } : { lease, way: 'wireguard', through };
}

/**
 * Which host passes on what two others send each other. WireGuard takes a subnet's packets from one peer alone, so both ends have
 * to come to the same answer: it depends on nothing but what leases say. Rendezvous hashing (Thaler and Ravishankar, 1998): pairs
 * spread, and a relay that goes moves its own pairs only. When neither end hears any there is nothing to lose.
 */
export function relayFor(
  [a, b]: readonly [string, string],
  relays: readonly string[],
  unheard: ReadonlySet<string>,
): string | undefined {
  const pair = a < b ? `${a} ${b}` : `${b} ${a}`;
  const rank = (relay: string) => createHash('sha256').update(`${relay} ${pair}`).digest('hex');
  const ranked = relays.map((relay) => ({ relay, rank: rank(relay) })).sort((x, y) => (x.rank < y.rank ? -1 : 1));
  return (ranked.find(({ relay }) => !unheard.has(relay)) ?? ranked[0])?.relay;
}
