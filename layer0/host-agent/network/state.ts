/** What should this host's network be? */
import { doMeet, firstOf, macOf, overlaps, spanOf } from './addresses.ts';
import { type RuleSet, iptablesRules } from './iptables.ts';
import type { Lease } from './lease.ts';
import { type Endpoint, type LocalJob, placesOf, policiesOf } from './policy.ts';
import { rulesetOf } from './ruleset.ts';

export type Backend = 'auto' | 'direct' | 'vxlan';

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

/** `via` is a neighbour on the hosts' network, or behind the tunnel's `device`. */
export type Route = Readonly<{ subnet: string; via: string; device?: string; source: string }>;
export type Tunnel = Readonly<{ device: string; id: number; port: number; local: string; mac: string; mtu: number }>;
/** The other end of the tunnel: its gateway's MAC address, and the host that has it. */
export type Peer = Readonly<{ gateway: string; mac: string; address: string }>;

export type NetworkState = Readonly<{
  bridge: Readonly<{ device: string; subnet: string; gateway: string }>;
  routes: readonly Route[];
  tunnel?: Tunnel;
  peers: readonly Peer[];
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
}): NetworkState {
  const { settings, machine, jobs, endpoints } = input;
  const { bridge, subnet, gateway, vxlanId } = settings;
  const others = othersOf(input.leases, settings);
  const policies = policiesOf(jobs, endpoints);
  const device = tunnelDevice(vxlanId);
  const tunnelled = others.filter((lease) => isTunnelled(lease, settings, machine));
  return {
    bridge: { device: bridge, subnet, gateway },
    routes: others.map((lease) => ({
      subnet: lease.subnet,
      source: gateway,
      ...(tunnelled.includes(lease) ? { via: firstOf(lease.subnet), device } : { via: lease.address }),
    })),
    ...(tunnelled.length === 0 ? {} : { tunnel: tunnelOf(settings, machine) }),
    peers: tunnelled.map((lease) => ({
      gateway: firstOf(lease.subnet),
      mac: macOf(lease.address),
      address: lease.address,
    })),
    ruleset: rulesetOf({
      settings,
      tunnel: device,
      ...(machine.bridgeMac === undefined ? {} : { bridgeMac: machine.bridgeMac }),
      canMatchBridge: machine.canMatchBridge,
      others,
      policies,
      // They are many, and few hosts have a job that may reach them all.
      services: policies.some(({ access }) => access.includes('services')) ? placesOf(endpoints) : [],
    }),
    iptables: iptablesRules(settings),
    sysctls: {
      'net.ipv4.ip_forward': '1',
      [migrateSysctl]: '1',
      [retriesSysctl]: retries,
      // Behind the tunnel a reply may come in where the strict check does not expect it; the rules check addresses.
      ...(tunnelled.length === 0 ? {} : { [`net.ipv4.conf.${device}.rp_filter`]: '2' }),
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

/** The host's own subnet is where its containers are, whatever is written about others; of two leases the older counts. */
function othersOf(leases: readonly Lease[], { hostId, subnet }: NetworkSettings): Lease[] {
  const others: Lease[] = [];
  const taken = [spanOf(subnet)];
  const byAge = [...leases].sort((a, b) => a.joinedAt - b.joinedAt || (a.hostId < b.hostId ? -1 : 1));
  for (const lease of byAge) {
    if (lease.hostId === hostId) continue;
    const span = spanOf(lease.subnet);
    if (taken.some((one) => doMeet(one, span))) continue;
    taken.push(span);
    others.push(lease);
  }
  return others;
}

function isTunnelled(lease: Lease, { backend, bridge }: NetworkSettings, { interfaces }: Machine): boolean {
  if (backend !== 'auto') return backend === 'vxlan';
  const isNeighbour = interfaces
    .filter(({ name }) => name !== bridge)
    .flatMap(({ subnets }) => subnets)
    .some((near) => !near.endsWith('/32') && overlaps(near, lease.address));
  return !isNeighbour;
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

function underlayMtu(address: string, interfaces: readonly Interface[]): number {
  const underlay = interfaces.find(({ subnets }) => subnets.some((near) => near.split('/')[0] === address));
  return underlay?.mtu ?? usualMtu;
}

/** What containers' links should carry: what fits through the tunnel, in a cluster that may come to need one. */
export function containerMtu(
  { address, backend }: Pick<NetworkSettings, 'address' | 'backend'>,
  interfaces: readonly Interface[],
): number {
  return underlayMtu(address, interfaces) - (backend === 'direct' ? 0 : tunnelOverhead);
}
