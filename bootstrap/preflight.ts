/** Can a cluster be set up here? Every obstacle at once, each with its remedy, before anything is changed. */
import { etcdPorts } from '@flynn/host-agent/cluster/etcd-resident';
import { joinPort } from '@flynn/host-agent/cluster/join';
import type { Listener } from './listeners.ts';
import { routerStatusPort } from './manifest.ts';
import { commands, isInstalled } from './origin.ts';
import { type Cluster, gatewayOf, httpsPortOf, numberOf } from './settings.ts';

export type Network = Readonly<{ device: string; subnet: string }>;

export type Facts = Readonly<{
  platform: string;
  isRoot: boolean;
  memoryBytes: number;
  /** Where the state directory and the engine's data are, or will be. */
  disks: readonly { path: string; freeBytes: number }[];
  engine: 'running' | 'startable' | 'missing';
  missingPrograms: readonly string[];
  listeners: readonly (Listener & { owner?: string })[];
  networks: readonly Network[];
  /** The cluster's own agent or jobs run already: its ports are taken by itself. */
  isClusterUp: boolean;
  /** What `nft` refuses of the rules that the network is made of, in its words; undefined where there is no nft. */
  nft?: Tool;
  /** The same of `ip`, whose answers have to be JSON. */
  ip?: Tool;
  /** In milliseconds since 1970: now, and when something of this cluster or this repository was written for certain. */
  clock: Readonly<{ now: number; notBefore: number }>;
}>;

export type Tool = Readonly<{ version: string; refusal?: string }>;

export type Problem = Readonly<{ what: string; remedy: string }>;

const gibibyte = 1024 ** 3;
const minDiskBytes = 5 * gibibyte;
/** What a machine sold as 2 GB has left for Linux. */
const minMemoryBytes = 1.7 * 1000 ** 3;
/** Clocks of files and machines that are right differ by less. */
const clockSlackMs = 10 * 60_000;

/** VXLAN's, which the kernel takes on every address. */
export const tunnelPort = 1115;

/** On the bridge's address, and but for names on others too: names, discovery, the host agent, the store. */
export const gatewayPorts = [
  { port: 53, protocol: 'udp', use: 'names' },
  { port: 53, protocol: 'tcp', use: 'names' },
  { port: 1111, protocol: 'tcp', use: 'service discovery' },
  { port: 1113, protocol: 'tcp', use: 'the host agent' },
  { port: joinPort, protocol: 'tcp', use: 'hosts that join' },
  { port: routerStatusPort, protocol: 'tcp', use: "the router's status" },
  { port: tunnelPort, protocol: 'udp', use: 'the tunnel to other hosts' },
  { port: etcdPorts.client, protocol: 'tcp', use: 'etcd' },
  { port: etcdPorts.peer, protocol: 'tcp', use: 'etcd' },
] as const;

/**
 * `machine`: what hosts of their own on it need. `joining`: before the cluster has told which ports and subnet are this
 * host's. `host`: everything.
 */
export type Scope = 'machine' | 'joining' | 'host';

export function judge(facts: Facts, cluster: Cluster, scope: Scope = 'host'): Problem[] {
  const problems = judgeMachine(facts);
  if (scope === 'machine') return [...problems, ...judgeSize(facts)];
  if (facts.isClusterUp) return problems;
  problems.push(...judgeSize(facts));
  if (scope === 'host') problems.push(...judgeRouterPorts(facts, cluster), ...judgeNetwork(facts, cluster));
  return [...problems, ...judgeHostPorts(facts, cluster)];
}

function judgeMachine(facts: Facts): Problem[] {
  const problems: Problem[] = [];
  if (facts.platform !== 'linux') {
    problems.push({
      what: `this machine runs ${facts.platform}, not Linux`,
      remedy: 'use a Linux machine, or a virtual one: vagrant up',
    });
  }
  if (!facts.isRoot) problems.push({ what: 'this needs root', remedy: 'run the same command with sudo' });
  if (facts.engine === 'missing') {
    problems.push({
      what: 'no container engine answers, and dockerd is not installed',
      remedy: 'install Docker (on Debian: apt-get install docker.io) and run the same command again',
    });
  }
  if (facts.missingPrograms.length > 0) {
    problems.push({
      what: `not installed: ${facts.missingPrograms.join(', ')}`,
      remedy: isInstalled
        ? 'install the packages they are in'
        : `run ${commands.up}, which installs them on Debian, or install them with your package manager`,
    });
  }
  return [...problems, ...judgeTools(facts), ...judgeClock(facts)];
}

function judgeTools({ nft, ip }: Facts): Problem[] {
  const problems: Problem[] = [];
  if (nft?.refusal !== undefined) {
    problems.push({
      what: `nft (${nft.version}) refuses rules that the network is made of: ${nft.refusal}`,
      remedy: 'install nftables 0.9.3 or later, on a kernel that has nf_tables (try: modprobe nf_tables)',
    });
  }
  if (ip?.refusal !== undefined) {
    problems.push({
      what: `ip (${ip.version}) does not answer as the network needs it: ${ip.refusal}`,
      remedy: 'install iproute2 4.16 or later',
    });
  }
  return problems;
}

function judgeClock({ clock: { now, notBefore } }: Facts): Problem[] {
  if (now + clockSlackMs >= notBefore) return [];
  const [is, was] = [now, notBefore].map((ms) => new Date(ms).toISOString());
  return [
    {
      what: `the clock says ${is}, but something here was written at ${was}: certificates made now would not be valid`,
      remedy: 'set the clock (timedatectl set-ntp true, or date --set) and run the same command again',
    },
  ];
}

function judgeSize(facts: Facts): Problem[] {
  const problems: Problem[] = facts.disks
    .filter((disk) => disk.freeBytes < minDiskBytes)
    .map((disk) => ({
      what: `${sizeOf(disk.freeBytes)} free at ${disk.path}; a cluster needs ${sizeOf(minDiskBytes)}`,
      remedy: 'free some space, or put the directory on a larger disk',
    }));
  if (facts.memoryBytes < minMemoryBytes) {
    problems.push({
      what: `${sizeOf(facts.memoryBytes)} of memory; a host needs 2 GB`,
      remedy: 'use a larger machine',
    });
  }
  return problems;
}

function judgeRouterPorts(facts: Facts, cluster: Cluster): Problem[] {
  const problems: Problem[] = [];
  // The router takes its ports on every address.
  const routerPorts = [
    {
      port: cluster.httpPort,
      use: 'HTTP',
      remedy: `stop it, or choose another port: FLYNN_HTTP_PORT=8080 ${commands.up}`,
    },
    {
      port: httpsPortOf(cluster),
      use: 'HTTPS',
      remedy: `stop it, or choose another port: FLYNN_HTTPS_PORT=8443 ${commands.up}`,
    },
    {
      port: cluster.gitPort,
      use: 'git',
      remedy: `stop it, or choose another port: FLYNN_GIT_PORT=2223 ${commands.up}`,
    },
  ];
  for (const { port, use, remedy } of routerPorts) {
    const taken = facts.listeners.find((listener) => listener.protocol === 'tcp' && listener.port === port);
    if (taken !== undefined) problems.push({ what: `port ${port}, for ${use}, is used by ${ownerOf(taken)}`, remedy });
  }
  for (const [port, use] of [
    [cluster.httpPort, 'HTTP'],
    [httpsPortOf(cluster), 'HTTPS'],
  ] as const) {
    if (port !== cluster.gitPort) continue;
    problems.push({ what: `${use} and git are both to use port ${port}`, remedy: 'choose another FLYNN_GIT_PORT' });
  }
  if (cluster.httpPort === httpsPortOf(cluster)) {
    problems.push({
      what: `HTTP and HTTPS are both to use port ${cluster.httpPort}`,
      remedy: 'choose another FLYNN_HTTPS_PORT',
    });
  }
  return problems;
}

function judgeHostPorts(facts: Facts, cluster: Cluster): Problem[] {
  const gateway = gatewayOf(cluster.subnet);
  const problems: Problem[] = [];
  const told = new Set<string>();
  for (const { port, protocol, use } of gatewayPorts) {
    const taken = facts.listeners.find(
      (listener) =>
        listener.protocol === protocol &&
        listener.port === port &&
        (isEverywhere(port) || wantedAddresses(port, gateway, cluster).includes(listener.address)),
    );
    if (taken === undefined || told.has(`${port} ${ownerOf(taken)}`)) continue;
    told.add(`${port} ${ownerOf(taken)}`);
    problems.push({
      what: `${protocol} port ${port}, for ${use}, is used by ${ownerOf(taken)} on ${taken.address === '*' ? 'every address' : taken.address}`,
      remedy: port === 53 ? 'stop it, or make it listen on the addresses it needs only' : 'stop it',
    });
  }
  return problems;
}

/** Those that listen on every address. */
function isEverywhere(port: number): boolean {
  return [etcdPorts.client, etcdPorts.peer, routerStatusPort, tunnelPort].includes(port);
}

function wantedAddresses(port: number, gateway: string, cluster: Cluster): string[] {
  return port === 53 ? ['*', gateway] : ['*', gateway, '127.0.0.1', cluster.address];
}

function judgeNetwork(facts: Facts, cluster: Cluster): Problem[] {
  return facts.networks
    .filter((network) => network.device !== cluster.bridge && overlaps(network.subnet, cluster.subnet))
    .map((network) => ({
      what: `${cluster.subnet}, for containers, overlaps ${network.subnet} of ${network.device}`,
      remedy: `choose a subnet that is free: FLYNN_SUBNET=10.231.0.0/24 ${commands.up}`,
    }));
}

function ownerOf(listener: Facts['listeners'][number]): string {
  return (
    listener.owner ?? (listener.protocol === 'udp' ? 'another program, or a tunnel of the kernel' : 'another program')
  );
}

export function overlaps(a: string, b: string): boolean {
  const [addressA = '', bitsA = '32'] = a.split('/');
  const [addressB = '', bitsB = '32'] = b.split('/');
  const bits = Math.min(Number(bitsA), Number(bitsB));
  const shift = 32 - bits;
  // Shifting by 32 is shifting by 0 in JavaScript.
  return bits === 0 || numberOf(addressA) >>> shift === numberOf(addressB) >>> shift;
}

/** The text of /proc/net/route, without default routes. */
export function parseRoutes(text: string): Network[] {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [device = '', destination = '', , , , , , mask = ''] = line.trim().split(/\s+/);
      if (mask === '' || mask === '00000000') return [];
      return [{ device, subnet: `${dotted(destination)}/${bitsOf(mask)}` }];
    });
}

function dotted(littleEndianHex: string): string {
  return (littleEndianHex.match(/../g) ?? [])
    .toReversed()
    .map((byte) => Number.parseInt(byte, 16))
    .join('.');
}

function bitsOf(hex: string): number {
  return Number.parseInt(hex, 16).toString(2).replaceAll('0', '').length;
}

function sizeOf(bytes: number): string {
  return `${(bytes / 1000 ** 3).toFixed(1)} GB`;
}
