/** What should this host's network be? */
import { doMeet, firstOf, macOf, overlaps, spanOf } from './addresses.ts';
import { type RuleSet, iptablesRules } from './iptables.ts';
import type { Encryption } from './encryption.ts';
import type { Lease } from './lease.ts';
import { type Link, areTogether, linksOf } from './links.ts';
import { type Endpoint, type LocalJob, placesOf, policiesOf } from './policy.ts';
import { rulesetOf } from './ruleset.ts';
import { type Wireguard, needsWireguard, wireguardOverhead, wireguardPeers } from './wireguard.ts';

/** `wireguard`: all that hosts' containers send each other is encrypted, or not sent. */
export type Backend = 'auto' | 'direct' | 'vxlan' | 'wireguard';

export type NetworkSettings = Readonly<{
  cluster: string;
  hostId: string;
  address: string;
  subnet: string;
  /** The host's own address in its subnet. */
  gateway: string;
  bridge: string;
  /** What all hosts' subnets are of. */
  range: string;
  backend: Backend;
  vxlanId: number;
  vxlanPort: number;
  /** The private network that this host is in, behind NAT, and its address there. */
  site?: string;
  localAddress?: string;
  /** Whether containers reach what the cloud tells the machine. */
  isMetadataOpen?: boolean;
  /** `key` is the public half, `keyFile` has the private one. */
  wireguard: Readonly<{ device: string; port: number; key: string; keyFile: string }>;
}>;

/** What of the machine the answer depends on. */
export type Machine = Readonly<{
  interfaces: readonly Interface[];
  /** MAC address of the bridge; undefined while there is none. */
  bridgeMac: string | undefined;
  /** Whether the kernel's bridge rules can tell bridges apart. */
  canMatchBridge: boolean;
}>;
export type Interface = Readonly<{ name: string; mtu: number; subnets: readonly string[] }>;

/** `via` is a neighbour on the hosts' network, or behind the tunnel's `device`; WireGuard's knows by itself whose a packet is. */
export type Route = Readonly<{ subnet: string; via?: string; device?: string; source: string }>;
export type Tunnel = Readonly<{ device: string; id: number; port: number; local: string; mac: string; mtu: number }>;
/** The other end of the tunnel: its gateway's MAC address, and the host that has it. */
export type Peer = Readonly<{ gateway: string; mac: string; address: string }>;

export type NetworkState = Readonly<{
  bridge: Readonly<{ device: string; subnet: string; gateway: string }>;
  routes: readonly Route[];
  tunnel?: Tunnel;
  peers: readonly Peer[];
  wireguard?: Wireguard;
  /** For people. Before all that is sent is encrypted, those that it would not reach have no way already. */
  links: readonly Link[];
  /** Hosts that there is no way to, and why, for people. */
  unreachable: readonly Readonly<{ hostId: string; why: string }>[];
  /** A script for nft that replaces our tables. */
  ruleset: string;
  iptables: RuleSet;
  /** By name, as `net.ipv4.ip_forward`. */
  sysctls: Readonly<Record<string, string>>;
}>;

export const defaultRange = '100.100.0.0/16';
export const defaultVxlanId = 7117;

/** Our routes carry it, and no others are touched. */
export const routeProtocol = 117;
const tunnelOverhead = 50;
const usualMtu = 1_500;

export function tunnelDevice(vxlanId: number): string {
  return `flynnvx${vxlanId}`;
}

export function wanted(input: {
  settings: NetworkSettings;
  machine: Machine;
  leases: readonly Lease[];
  jobs: readonly LocalJob[];
  endpoints: readonly Endpoint[];
  /** Between all hosts, as the cluster is told. */
  encryption: Encryption;
  held?: readonly string[];
}): NetworkState {
  const { settings, machine, jobs, endpoints, encryption } = input;
  const { bridge, subnet, gateway, vxlanId } = settings;
  const others = othersOf(input.leases, settings);
  const policies = policiesOf(jobs, endpoints);
  const device = tunnelDevice(vxlanId);
  const linksBy = (backend: Backend): Link[] =>
    linksOf({
      self: { ...settings, backend },
      others,
      isNeighbour: (address) => isNeighbour(address, settings, machine),
      unheard: input.leases.find(({ hostId }) => hostId === settings.hostId)?.unheard ?? [],
    });
  const inClear = linksBy(settings.backend);
  const encrypted = linksBy('wireguard');
  const links = encryption === 'sent' || encryption === 'on' ? encrypted : inClear;
  // As long as some host may still send by it, it is there.
  const tunnelled = (encryption === 'on' ? links : inClear)
    .filter(({ way }) => way === 'vxlan')
    .map(({ lease }) => lease);
  const wireguard = needsWireguard(settings, others, encryption)
    ? { ...wireguardOf(settings, machine), peers: wireguardPeers(settings, links, encryption) }
    : undefined;
  // Between two of these this host passes on what they send each other.
  const behindNat = settings.site === undefined ? others.filter(({ site }) => site !== undefined) : [];
  return {
    bridge: { device: bridge, subnet, gateway },
    routes: links.flatMap((link) => routesOf(link, settings)),
    ...(tunnelled.length === 0 ? {} : { tunnel: tunnelOf(settings, machine) }),
    peers: tunnelled.map((lease) => ({
      gateway: firstOf(lease.subnet),
      mac: macOf(lease.address),
      address: lease.address,
    })),
    ...(wireguard === undefined ? {} : { wireguard }),
    links: links.map((link, index) =>
      encryption === 'ready' && encrypted[index]?.way === 'none' ? encrypted[index] : link,
    ),
    unreachable: links.flatMap((link) => (link.way === 'none' ? [{ hostId: link.lease.hostId, why: link.why }] : [])),
    ruleset: rulesetOf({
      settings,
      tunnel: device,
      ...(wireguard === undefined
        ? {}
        : {
            wireguard: {
              device: wireguard.device,
              // Until all send it so, what comes in clear is taken.
              encrypted: (encryption === 'on' ? encrypted : inClear)
                .filter(({ way }) => way === 'wireguard' || way === 'none')
                .map(({ lease }) => lease.subnet),
              relayed: behindNat.map(({ subnet: one }) => one),
            },
          }),
      mates: others.filter((lease) => areTogether(settings, lease)),
      ...(machine.bridgeMac === undefined ? {} : { bridgeMac: machine.bridgeMac }),
      canMatchBridge: machine.canMatchBridge,
      others,
      policies,
      held: input.held ?? [],
      // They are many, and few hosts have a job that may reach them all.
      services: policies.some(({ access }) => access.includes('services')) ? placesOf(endpoints) : [],
    }),
    iptables: iptablesRules({
      ...settings,
      ...(wireguard === undefined ? {} : { tunnel: { device: wireguard.device, isRelay: behindNat.length > 0 } }),
    }),
    sysctls: {
      'net.ipv4.ip_forward': '1',
      [migrateSysctl]: '1',
      [retriesSysctl]: retries,
      // Behind the tunnel a reply may come in where the strict check does not expect it; the rules check addresses.
      ...(tunnelled.length === 0 ? {} : { [`net.ipv4.conf.${device}.rp_filter`]: '2' }),
      ...(wireguard === undefined ? {} : { [`net.ipv4.conf.${wireguard.device}.rp_filter`]: '2' }),
    },
  };
}

/**
 * Connections that wait at a port that is closed go to another process at the same port, if there is one: whoever shares its
 * ports, as the router does, can be replaced without losing any. Not in kernels before 5.14.
 */
export const migrateSysctl = 'net.ipv4.tcp_migrate_req';

/**
 * How often the host itself (etcd, the agent; containers have their own) sends again what nobody acknowledges before it gives
 * the connection up: five times, about 13 s. Of the kernel's own fifteen each comes twice as long after the one before, for a
 * quarter of an hour; a member of etcd that could be reached again long since waited for the next of them.
 */
export const retriesSysctl = 'net.ipv4.tcp_retries2';
const retries = '5';

/**
 * The host's own subnet is where its containers are, whatever is written about others; of two leases the older counts. A key that
 * two of them have is the older's, too: WireGuard tells peers apart by nothing else.
 */
function othersOf(leases: readonly Lease[], { hostId, subnet, wireguard }: NetworkSettings): Lease[] {
  const others: Lease[] = [];
  const taken = [spanOf(subnet)];
  const keys = new Set([wireguard.key]);
  const byAge = [...leases].sort((a, b) => a.joinedAt - b.joinedAt || (a.hostId < b.hostId ? -1 : 1));
  for (const lease of byAge) {
    if (lease.hostId === hostId) continue;
    const span = spanOf(lease.subnet);
    if (taken.some((one) => doMeet(one, span))) continue;
    taken.push(span);
    const { tunnelKey, ...rest } = lease;
    others.push(tunnelKey === undefined || keys.has(tunnelKey) ? rest : lease);
    if (tunnelKey !== undefined) keys.add(tunnelKey);
  }
  return others;
}

function isNeighbour(address: string, { bridge }: NetworkSettings, { interfaces }: Machine): boolean {
  return interfaces
    .filter(({ name }) => name !== bridge)
    .flatMap(({ subnets }) => subnets)
    .some((near) => !near.endsWith('/32') && overlaps(near, address));
}

function routesOf(link: Link, { gateway, vxlanId, wireguard }: NetworkSettings): Route[] {
  const { subnet } = link.lease;
  switch (link.way) {
    case 'direct':
      return [{ subnet, source: gateway, via: link.via }];
    case 'vxlan':
      return [{ subnet, source: gateway, via: firstOf(subnet), device: tunnelDevice(vxlanId) }];
    case 'wireguard':
      return [{ subnet, source: gateway, device: wireguard.device }];
    case 'none':
      return [];
    default:
      return link satisfies never;
  }
}

function tunnelOf({ address, vxlanId, vxlanPort }: NetworkSettings, machine: Machine): Tunnel {
  return {
    device: tunnelDevice(vxlanId),
    id: vxlanId,
    port: vxlanPort,
    local: address,
    mac: macOf(address),
    mtu: underlayMtu(address, machine.interfaces) - tunnelOverhead,
  };
}

function wireguardOf(settings: NetworkSettings, { interfaces }: Machine): Omit<Wireguard, 'peers'> {
  const { address, localAddress = address, wireguard } = settings;
  const mtu = underlayMtu(localAddress, interfaces) - wireguardOverhead;
  return { ...wireguard, mtu };
}

function underlayMtu(address: string, interfaces: readonly Interface[]): number {
  const underlay = interfaces.find(({ subnets }) => subnets.some((near) => near.split('/')[0] === address));
  return underlay?.mtu ?? usualMtu;
}

/** What containers' links should carry: what fits through any tunnel, in a cluster that may come to need one. */
export function containerMtu(
  { address, localAddress = address, backend }: Pick<NetworkSettings, 'address' | 'localAddress' | 'backend'>,
  interfaces: readonly Interface[],
): number {
  return underlayMtu(localAddress, interfaces) - (backend === 'direct' ? 0 : wireguardOverhead);
}
