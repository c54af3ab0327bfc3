/**
 * The host's own nftables rules, as a script that replaces them in one transaction.
 *
 * Every packet of a job is routed: between two jobs of this host too. Their frames meet on the bridge, which knows no
 * connections and on most kernels asks nobody; so a frame for another container is handed to the host instead, by
 * rewriting the MAC address it is for, and the rules for packets hold for all alike, with or without br_netfilter.
 *
 * A job's packets are judged on the host it runs on, by its source address; other hosts believe that. A source that is
 * not (yet) known reaches nothing in the cluster, and its packets are dropped, not refused: a job that has just started
 * tries again and finds its rules in place.
 */
import { buildBridgePrefix as stepBridges } from '../engine/labels.ts';
import { keyspacePort } from '../keyspaces/keyspace.ts';
import { firstOf, overlaps } from './addresses.ts';
import type { Lease } from './lease.ts';
import type { Access, Policy } from './policy.ts';

/** The platform's own, on every host: DNS, discovery, join, agents, router's status, tunnel, keyspaces, WireGuard; etcd. */
const platformPorts = '{ 53, 1111-1117, 2379, 2380 }';
const ports = { dns: 53, discovery: 1111, agent: 1113, keyspaces: keyspacePort, store: 2379 } as const;
const withPorts = 'meta l4proto { tcp, udp }';
/**
 * Where clouds tell a machine about itself: what it was started with, a key to join by among it, and who it is to the cloud. It is
 * told over HTTP; at the same addresses some have their name servers and clocks, which stay open. The second one is Azure's.
 */
const metadata = 'ip daddr { 169.254.0.0/16, 168.63.129.16 } tcp dport != 53 goto refuse';

export type RulesetInput = Readonly<{
  settings: {
    cluster: string;
    address: string;
    subnet: string;
    gateway: string;
    bridge: string;
    range: string;
    vxlanPort: number;
    /** Behind NAT. */
    site?: string;
    localAddress?: string;
    isMetadataOpen?: boolean;
  };
  tunnel: string;
  /** Subnets that are reached through its device alone, and those between which this host passes on packets. */
  wireguard?: Readonly<{ device: string; encrypted: readonly string[]; relayed: readonly string[] }>;
  /** Those of the others that are in the same private network. */
  mates: readonly Lease[];
  bridgeMac?: string;
  canMatchBridge: boolean;
  /** Of the other hosts. */
  others: readonly Lease[];
  policies: readonly Policy[];
  /** All announced ports, as `address . port`. */
  services: readonly string[];
  /** Addresses of jobs that begin no connections for the moment: see `crowd.ts`. */
  held?: readonly string[];
}>;

export function tableName(cluster: string): string {
  return `flynn_${cluster}`;
}

export function rulesetOf(input: RulesetInput): string {
  const { settings, others, policies, services, wireguard } = input;
  const { cluster, subnet, gateway, bridge, range, vxlanPort } = settings;
  const table = `ip ${tableName(cluster)}`;
  const hosts = [
    settings.address,
    gateway,
    ...others.flatMap((lease) => [lease.address, firstOf(lease.subnet)]),
    ...[settings, ...input.mates].flatMap(({ localAddress = [] }) => localAddress),
  ];
  // What is encrypted comes with a source of the host's subnet; so does all that comes from a host behind NAT.
  const isInside = (lease: Lease): boolean =>
    overlaps(lease.subnet, lease.address) || wireguard?.encrypted.includes(lease.subnet) === true;
  const peers = others.flatMap((lease) => (isInside(lease) ? [lease.subnet] : [lease.address, lease.subnet]));
  const held = [...new Set(input.held)].sort();
  const refused = held.length === 0 ? [] : [`ip saddr { ${held.join(', ')} } goto refuse`];
  const told = settings.isMetadataOpen === true ? [] : [metadata];
  const inside = [range, ...[subnet, ...others.map((lease) => lease.subnet)].filter((one) => !overlaps(range, one))];
  const places = 'ipv4_addr . inet_service';
  const verdicts = policies.flatMap(({ sources }, index) =>
    sources.map((source) => `${source} : goto policy_${index + 1}`),
  );
  const packets = [
    set('set hosts', 'ipv4_addr', [], hosts),
    set('set peers', 'ipv4_addr', intervals, peers),
    set('set inside', 'ipv4_addr', intervals, inside),
    set('set services', places, [], services),
    ...(wireguard === undefined
      ? []
      : [
          set('set encrypted', 'ipv4_addr', intervals, wireguard.encrypted),
          set('set relayed', 'ipv4_addr', intervals, wireguard.relayed),
        ]),
    ...policies.map(({ endpoints }, index) => set(`set reach_${index + 1}`, places, [], endpoints)),
    chain('refuse', ['meta l4proto tcp reject with tcp reset', 'reject with icmp type admin-prohibited']),
    ...policies.map((policy, index) => chain(`policy_${index + 1}`, policyRules(policy, index + 1, gateway))),
    set('map jobs', 'ipv4_addr : verdict', [], verdicts),
    chain('decide', ['ip saddr vmap @jobs', 'drop']),
    chain('from_jobs', [
      `ip saddr != ${subnet} drop`,
      `ip saddr ${gateway} drop`,
      'ct state established,related accept',
      ...refused,
      'ct status dnat accept',
      `ip daddr @hosts ${withPorts} th dport ${platformPorts} goto decide`,
      'ip daddr @hosts accept',
      'ip daddr @inside goto decide',
      ...told,
    ]),
    // Steps of builds may write any source into a packet. One of the cluster's would be believed.
    chain('from_steps', ['ip saddr @inside drop', 'ip saddr @hosts drop', ...told]),
    chain('to_host', [
      `ip saddr != ${subnet} drop`,
      `ip saddr ${gateway} drop`,
      'ct state established,related accept',
      ...refused,
      `ip daddr ${gateway} ${withPorts} th dport ${ports.dns} accept`,
      `${withPorts} th dport ${platformPorts} goto decide`,
      'accept',
    ]),
    chain('to_jobs', [
      'ct state established,related accept',
      'ct status dnat accept',
      'ip saddr @peers accept',
      'drop',
    ]),
    chain('forward', [
      'type filter hook forward priority -10; policy accept;',
      `iifname "${stepBridges}*" jump from_steps`,
      `iifname "${input.tunnel}" oifname != "${bridge}" drop`,
      ...(wireguard === undefined ? [] : passages(wireguard.device, bridge)),
      `iifname "${bridge}" tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu`,
      `iifname "${bridge}" jump from_jobs`,
      `iifname != "${bridge}" oifname "${bridge}" jump to_jobs`,
    ]),
    chain('input', [
      'type filter hook input priority -10; policy accept;',
      `iifname "${stepBridges}*" jump from_steps`,
      `iifname "${bridge}" jump to_host`,
      'iifname "lo" accept',
      ...(wireguard === undefined
        ? []
        : [
            `iifname != "${wireguard.device}" ip saddr @encrypted drop`,
            `iifname "${wireguard.device}" ip saddr != @peers drop`,
          ]),
      'ct state established,related accept',
      ...(wireguard === undefined || settings.site === undefined ? [] : [notFromJobs(wireguard.device)]),
      `ip saddr ${subnet} drop`,
      `udp dport ${vxlanPort} ip saddr != @peers drop`,
      `ip daddr ${gateway} ip saddr != @peers drop`,
    ]),
    // To two jobs of one network a router would say that they need none.
    chain('output', [
      'type filter hook output priority -10; policy accept;',
      `oifname "${bridge}" icmp type redirect drop`,
      // Nor do two hosts behind NAT reach each other without a relay.
      ...(wireguard === undefined
        ? []
        : [`oifname "${wireguard.device}" icmp type redirect drop`, notInClear(wireguard.device)]),
    ]),
    // Before the engine's, which then has nothing left to do; and instead of it, should its rules be gone.
    chain('postrouting', [
      'type nat hook postrouting priority 90; policy accept;',
      `ip saddr ${subnet} oifname != "${bridge}" ip daddr != @inside masquerade`,
    ]),
  ];
  return [replacement(table, packets), replacement(`bridge ${tableName(cluster)}`, bridgeChains(input))].join('');
}

/** Through WireGuard packets come to this host's containers, and from one host behind NAT to another; to nowhere else. */
function passages(device: string, bridge: string): string[] {
  return [
    `iifname "${device}" oifname "${device}" ip saddr @relayed ip daddr @relayed accept`,
    `iifname "${device}" oifname != "${bridge}" drop`,
    `iifname != "${device}" ip saddr @encrypted drop`,
    notInClear(device),
  ];
}

/**
 * What listens on a machine behind NAT its router hid from everybody: hosts come through the tunnel, and their jobs to the
 * platform.
 */
function notFromJobs(device: string): string {
  return `iifname "${device}" ip saddr != @hosts ${withPorts} th dport != ${platformPorts} drop`;
}

/** While the device or a route is missing, packets would take the way to the outside. */
function notInClear(device: string): string {
  return `oifname != "${device}" ip daddr @encrypted reject with icmp type host-unreachable`;
}

function policyRules({ access, isOpen }: Policy, number: number, gateway: string): string[] {
  if (isOpen) return ['accept'];
  const opened: Record<Access, string> = {
    agents: `ip daddr @hosts tcp dport ${ports.agent} accept`,
    discovery: `ip daddr ${gateway} tcp dport ${ports.discovery} accept`,
    keyspace: `ip daddr ${gateway} tcp dport ${ports.keyspaces} accept`,
    services: `${withPorts} ip daddr . th dport @services accept`,
    store: `ip daddr @hosts tcp dport ${ports.store} accept`,
  };
  const reach = `${withPorts} ip daddr . th dport @reach_${number} accept`;
  return [reach, ...access.map((part) => opened[part]), 'goto refuse'];
}

/** Without its MAC address there is no bridge, and no frame on it. */
function bridgeChains({ settings, bridgeMac, canMatchBridge }: RulesetInput): string[] {
  if (bridgeMac === undefined) return [];
  const { bridge, subnet, gateway } = settings;
  // On other bridges, such as one with the machine's own address, frames from other hosts to containers are as they are to be.
  const here = canMatchBridge ? `meta ibrname "${bridge}"` : `ip saddr ${subnet}`;
  return [
    chain('prerouting', [
      'type filter hook prerouting priority -300; policy accept;',
      `${here} ip daddr ${subnet} ip daddr != ${gateway} ether daddr set ${bridgeMac} meta pkttype set host`,
    ]),
    chain('forward', [
      'type filter hook forward priority -300; policy accept;',
      canMatchBridge ? `${here} ether type != arp drop` : `${here} drop`,
    ]),
  ];
}

const intervals = ['flags interval'];

function set(name: string, type: string, options: readonly string[], elements: readonly string[]): string {
  const unique = [...new Set(elements)];
  const content = unique.length === 0 ? [] : [`elements = { ${unique.join(', ')} }`];
  return block(name, [`type ${type}`, ...options, ...content]);
}

function chain(name: string, rules: readonly string[]): string {
  return block(`chain ${name}`, rules);
}

function block(head: string, lines: readonly string[]): string {
  return `  ${head} {\n${lines.map((line) => `    ${line}\n`).join('')}  }\n`;
}

/** To name a table makes it, so that it can be deleted whether or not it was there. */
function replacement(table: string, content: readonly string[]): string {
  return `table ${table}\ndelete table ${table}\ntable ${table} {\n${content.join('')}}\n`;
}
