/** What should this host's WireGuard device be? */
import type { Encryption } from './encryption.ts';
import type { Lease } from './lease.ts';
import { type Link, areApart, areTogether } from './links.ts';
import type { NetworkSettings } from './state.ts';

/** `key` is its public key, of which `keyFile` has the private half. */
export type Wireguard = Readonly<{
  device: string;
  port: number;
  key: string;
  keyFile: string;
  mtu: number;
  peers: readonly WireguardPeer[];
}>;

export type WireguardPeer = Readonly<{
  hostId: string;
  key: string;
  /** Where it is, as `address:port`. Of a host behind NAT its packets tell. */
  endpoint?: string;
  /** 0: never. */
  keepaliveSeconds: number;
  /** What is sent to it, and taken from it. */
  subnets: readonly string[];
}>;

/** What a packet grows by: IPv6 around it, though it is IPv4 here, and padding. */
export const wireguardOverhead = 80;

/** Keeps the mapping of a NAT router, and tells each end that the other is there. */
const keepaliveSeconds = 20;

/**
 * Of several hosts on one machine, in namespaces of their own, wireguard-go's sockets are in one folder, by the device's name:
 * it has the number of the host's subnet.
 */
export function wireguardDevice(vxlanId: number, subnet: string): string {
  return `${wireguardPrefix(vxlanId)}${subnet.split('.')[2] ?? '0'}`;
}

export function wireguardPrefix(vxlanId: number): string {
  return `flwg${vxlanId}-`;
}

/** For people whose machine can have no such device. */
export const wireguardRemedy =
  'apt-get install wireguard-tools, and wireguard-go where the kernel has none (or: modprobe wireguard)';

/** A cluster without it needs no program for it. */
export function needsWireguard(
  { backend, site }: NetworkSettings,
  others: readonly Lease[],
  encryption: Encryption,
): boolean {
  if (others.length === 0) return false;
  return (
    encryption !== 'off' ||
    backend === 'wireguard' ||
    site !== undefined ||
    others.some((lease) => lease.site !== undefined)
  );
}

/** Whoever has a key and is reachable is a peer, whether or not there is another way to it: the other may use this one already. */
export function wireguardPeers(
  settings: NetworkSettings,
  links: readonly Link[],
  encryption: Encryption,
): WireguardPeer[] {
  return links.flatMap((link) => {
    const { hostId, tunnelKey, subnet } = link.lease;
    if (tunnelKey === undefined || areApart(settings, link.lease)) return [];
    const passedOn = links.filter((one) => one !== link && one.way === 'wireguard' && one.through === hostId);
    const endpoint = endpointOf(settings, link.lease);
    return [
      {
        hostId,
        key: tunnelKey,
        ...(endpoint === undefined ? {} : { endpoint }),
        // Before anything is sent this way it has to be certain that it is one.
        keepaliveSeconds: link.way === 'wireguard' || encryption !== 'off' ? keepaliveSeconds : 0,
        subnets: [subnet, ...passedOn.map(({ lease }) => lease.subnet)].sort(),
      },
    ];
  });
}

function endpointOf(settings: NetworkSettings, lease: Lease): string | undefined {
  const { port } = settings.wireguard;
  if (areTogether(settings, lease)) return `${lease.localAddress}:${port}`;
  return lease.site === undefined ? `${lease.address}:${port}` : undefined;
}
