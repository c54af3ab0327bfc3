/** Are the addresses that containers are to have, of this host and of all others, in use for nothing else? */
import { overlaps } from '@flynn/host-agent/network/addresses';
import { type Network, tailscale } from './networks.ts';
import type { Facts, Problem } from './preflight.ts';
import type { Cluster } from '../settings.ts';

/** What has addresses that may be of the cluster's: for people, and what they can do about it where the range is settled. */
type Use = Readonly<{ subnet: string; what: string; instead: string; isOurs?: boolean | undefined }>;

/**
 * Who makes a cluster chooses a range that is free. For who joins one it is settled: in the way is what is where its own
 * containers are to be, and the rest is told (`rangeWarnings`). A host that is there already is judged by its own subnet alone.
 */
export function judgeNetwork(facts: Facts, cluster: Cluster): Problem[] {
  const { subnet, range } = cluster;
  const isChoosing = mayChoose(facts, cluster);
  return usesOf(facts, cluster).flatMap((use) => {
    const isOwn = overlaps(use.subnet, subnet);
    if (!isOwn && !(isChoosing && isInRange(use, range))) return [];
    const whose = isOwn ? `${subnet}, for containers here` : `${range}, for the containers of all hosts`;
    return [
      {
        what: `${use.what} ${whose}`,
        remedy: isChoosing
          ? 'choose a range that is free, on all hosts that there will be: the same command again with FLYNN_RANGE=10.231.0.0/16'
          : `${use.instead}: the cluster gives this host ${subnet}, of its own range`,
      },
    ];
  });
}

/** What who joins is told: it may never matter, where the cluster does not come to have so many hosts. */
export function rangeWarnings(facts: Facts, cluster: Cluster): string[] {
  const { subnet, range, hasPlatform } = cluster;
  if (facts.isHost || hasPlatform) return [];
  return usesOf(facts, cluster)
    .filter((use) => isInRange(use, range) && !overlaps(use.subnet, subnet))
    .map(
      ({ what }) =>
        `${what} ${range}, of which the containers of each host have a part: with a host that has this one, the machine reaches either those or what is there now`,
    );
}

function mayChoose({ isHost }: Facts, { hasPlatform }: Cluster): boolean {
  return hasPlatform && !isHost;
}

/** Networks that clusters and tests made here share the range with what is made of it, each its part. */
function isInRange({ subnet, isOurs }: Use, range: string): boolean {
  return isOurs !== true && overlaps(subnet, range);
}

/** Each once: an address in a network that is told of is not news. */
function usesOf(facts: Facts, cluster: Cluster): Use[] {
  const isForeign = ({ device }: Network): boolean =>
    // docs/installing.md says what helps beside it where the range is settled.
    device !== cluster.bridge && (device !== tailscale.device || mayChoose(facts, cluster));
  const networks = facts.networks.filter(isForeign).map(({ device, subnet, isOurs }) => ({
    subnet,
    what: `${subnet} of ${device} overlaps`,
    instead: `take ${device} away, or its network`,
    isOurs,
  }));
  if (facts.isHost) return networks;
  // Of a host behind NAT the address is its gateway, which is to be of the range.
  const own = [...(cluster.site === undefined ? [cluster.address] : []), ...facts.address.others];
  const addresses = [...new Set(own)].map((one) => ({
    subnet: one,
    what: `${one}, an address of this machine, is in`,
    instead: 'give it another address',
  }));
  // Tailscale's own, 100.100.100.100, is asked through it whatever routes there are.
  const isTailscales = (one: string): boolean =>
    facts.networks.some(({ device }) => device === tailscale.device) && overlaps(one, tailscale.subnet);
  const nameServers = facts.nameServers
    .filter((one) => !isTailscales(one))
    .map((one) => ({
      subnet: one,
      what: `the name server ${one} is in`,
      instead: 'let the machine ask another one (resolvectl dns, or /etc/resolv.conf; FLYNN_DNS_UPSTREAMS)',
    }));
  // Free today, and given to the next network that somebody makes.
  const pools = facts.enginePools.map((subnet) => ({
    subnet,
    what: `${subnet}, of which the container engine gives networks addresses (default-address-pools), overlaps`,
    instead: 'give the engine another one (/etc/docker/daemon.json, then systemctl restart docker)',
  }));
  const isNews = ({ subnet }: Use): boolean => !networks.some((network) => overlaps(network.subnet, subnet));
  return [...networks, ...[...addresses, ...nameServers, ...pools].filter(isNews)];
}
