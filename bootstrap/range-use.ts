/** Are the addresses that containers are to have, of this host and of all others, in use for nothing else? */
import { overlaps } from '@flynn/host-agent/network/addresses';
import { commands } from './origin.ts';
import type { Facts, Network, Problem } from './preflight.ts';
import type { Cluster } from './settings.ts';

/** Of a VPN that no route tells of: what comes from there by any other device, as from containers, it drops. */
const tailscale: Network = { device: 'tailscale0', subnet: '100.64.0.0/10' };

/** Networks that are somebody's without a route in the kernel's main table, by the text of /proc/net/dev. */
export function claimedNetworks(devices: string): Network[] {
  return new RegExp(`^\\s*${tailscale.device}:`, 'm').test(devices) ? [tailscale] : [];
}

/** A host that is there already is judged by its own subnet alone: the others' it has routes to, and the range is settled. */
export function judgeNetwork(facts: Facts, cluster: Cluster): Problem[] {
  const { range, subnet, hasPlatform } = cluster;
  const isForeign = (network: Network): boolean =>
    network.device !== cluster.bridge && (network.device !== tailscale.device || (hasPlatform && !facts.isHost));
  const foreign = facts.networks.filter(isForeign);
  const anotherRange = `choose a range that is free, on all hosts that there will be: FLYNN_RANGE=10.231.0.0/16 ${commands.up}`;
  const overlapping = foreign.flatMap((network) => {
    const wanted = overlaps(network.subnet, subnet) ? subnet : overlaps(network.subnet, range) ? range : undefined;
    if (wanted === undefined || (facts.isHost && wanted === range)) return [];
    const whose = wanted === subnet ? 'for containers' : 'for the containers of all hosts';
    return [
      {
        what: `${wanted}, ${whose}, overlaps ${network.subnet} of ${network.device}`,
        remedy: hasPlatform
          ? anotherRange
          : `take ${network.device} away, or its network: the cluster gives this host ${subnet}, of its own range`,
      },
    ];
  });
  if (facts.isHost) return overlapping;
  const told = foreign.filter((network) => overlaps(network.subnet, range)).map((network) => network.subnet);
  const isNews = (address: string): boolean =>
    overlaps(address, range) && !told.some((network) => overlaps(address, network));
  // Of a host behind NAT the address is its gateway, which is to be of the range.
  const own = [...(cluster.site === undefined ? [cluster.address] : []), ...facts.address.others];
  const within = (what: string, instead: string): Problem => ({
    what: `${what} is in ${range}, of which the containers of all hosts have addresses: it would lead to one of them`,
    remedy: hasPlatform ? anotherRange : `${instead}: the range is the cluster's, and fixed`,
  });
  return [
    ...overlapping,
    ...[...new Set(own)].filter(isNews).map((one) => within(`${one}, of this machine,`, 'give it another address')),
    ...facts.nameServers
      .filter(isNews)
      .map((one) => within(`the name server ${one}`, 'let the machine ask another one (/etc/resolv.conf)')),
  ];
}
