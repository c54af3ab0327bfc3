/** Can a cluster be set up here? Every obstacle at once, each with its remedy, before anything is changed. */
import { etcdPorts } from '@flynn/host-agent/cluster/etcd-resident';
import { joinPort } from '@flynn/host-agent/cluster/join';
import type { AddressFacts } from '@flynn/host-agent/doctor/address';
import { keyspacePort } from '@flynn/host-agent/keyspaces/keyspace';
import { wireguardRemedy } from '@flynn/host-agent/network/wireguard';
import { unreachableKind } from '@flynn/host-agent/hosts/own-addresses';
import { type EngineMode, engineProblems } from './engine-modes.ts';
import type { Listener } from './listeners.ts';
import type { Network } from './networks.ts';
import { routerStatusPort } from '../platform/manifest.ts';
import { commands, isInstalled } from '../origin.ts';
import { judgeNetwork } from './range-use.ts';
import { type Cluster, gatewayOf } from '../settings.ts';
import { httpsPortOf } from '../domain/urls.ts';
import { type Unclaimed, unclaimedText } from './unclaimed.ts';

export type Facts = Readonly<{
  platform: string;
  isRoot: boolean;
  stateDir: string;
  memoryBytes: number;
  /** Where the state directory and the engine's data are, or will be. */
  disks: readonly { path: string; freeBytes: number }[];
  /** What is in the state directory and was there before. */
  strangers: readonly string[];
  engine: 'running' | 'startable' | 'missing';
  /** In which it runs, of those that no host is made of. */
  engineModes: readonly EngineMode[];
  /** Subnets of which it gives networks addresses, where somebody has set them. */
  enginePools: readonly string[];
  missingPrograms: readonly string[];
  listeners: readonly (Listener & { owner?: string })[];
  networks: readonly Network[];
  /** IPv4 addresses that the machine asks for names, and its containers are to. */
  nameServers: readonly string[];
  /** Whether the address that others are to know the host by is one of this machine, and which it may have instead. */
  address: AddressFacts;
  /** By which a host is known already, and works, whatever they are. */
  knownAddresses: readonly string[];
  /** It is a host already, whether or not anything of it runs. */
  isHost: boolean;
  /** The cluster's own agent or jobs run already: its ports are taken by itself. */
  isClusterUp: boolean;
  /** Whether somebody gave the cluster's name: one that is joined tells its own later. */
  isNameGiven: boolean;
  /** What there is of a cluster of that name although it is no host. */
  unclaimed: Unclaimed;
  /** What `nft` refuses of the rules that the network is made of, in its words; undefined where there is no nft. */
  nft?: Tool;
  /** The same of `ip`, whose answers have to be JSON. */
  ip?: Tool;
  /** Of a host that is to be behind NAT: why there can be no tunnel. */
  wireguard?: string;
  /**
   * In milliseconds since 1970: now, and when something of this cluster or this repository was written for certain.
   * `isSynchronized`: it goes by a server of the time, as the kernel says.
   */
  clock: Readonly<{ now: number; notBefore: number; isSynchronized?: boolean }>;
}>;

export type Tool = Readonly<{ version: string; refusal?: string }>;

export type Problem = Readonly<{ what: string; remedy: string }>;

const gibibyte = 1024 ** 3;
export const minDiskBytes = 5 * gibibyte;
/** What a machine sold as 2 GB has left for Linux. */
const minMemoryBytes = 1.7 * 1000 ** 3;
/** Clocks of files and machines that are right differ by less. */
const clockSlackMs = 10 * 60_000;

/** VXLAN's and WireGuard's, which the kernel takes on every address. */
export const tunnelPorts: readonly number[] = [1115, 1117];

/** On the bridge's address, and but for names on others too: names, discovery, the host agent, the store. */
export const gatewayPorts = [
  { port: 53, protocol: 'udp', use: 'names' },
  { port: 53, protocol: 'tcp', use: 'names' },
  { port: 1111, protocol: 'tcp', use: 'service discovery' },
  { port: 1113, protocol: 'tcp', use: 'the host agent' },
  { port: joinPort, protocol: 'tcp', use: 'hosts that join' },
  { port: routerStatusPort, protocol: 'tcp', use: "the router's status" },
  { port: 1115, protocol: 'udp', use: 'the tunnel to other hosts' },
  { port: 1117, protocol: 'udp', use: 'the encrypted tunnel to other hosts' },
  { port: etcdPorts.client, protocol: 'tcp', use: 'etcd' },
  { port: etcdPorts.peer, protocol: 'tcp', use: 'etcd' },
  { port: keyspacePort, protocol: 'tcp', use: "jobs' keyspaces" },
] as const;

/**
 * `machine`: what hosts of their own on it need. `joining`: before the cluster has told which ports and subnet are this
 * host's. `host`: everything.
 */
export type Scope = 'machine' | 'joining' | 'host';

export function judge(facts: Facts, cluster: Cluster, scope: Scope = 'host'): Problem[] {
  const problems = judgeMachine(facts);
  if (scope === 'machine') return [...problems, ...judgeSize(facts)];
  problems.push(...judgeAddress(facts, cluster), ...judgeUnclaimed(facts, cluster, scope));
  if (scope === 'host') problems.push(...judgeChosenPorts(cluster));
  if (facts.isClusterUp) return problems;
  // One whose disk has filled up is to be brought back: its agent makes room.
  if (!facts.isHost) problems.push(...judgeSize(facts));
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
  // One that became a host with it, as with its state in somebody's home, is brought up to date.
  problems.push(...engineProblems(facts.engineModes.filter((mode) => mode !== 'snap' || !facts.isHost)));
  if (facts.strangers.length > 0) {
    problems.push({
      what: `the folder for the cluster's state (FLYNN_STATE_DIR) has other things in it already: ${listed(facts.strangers)}`,
      remedy: `choose a folder of its own, which ${commands.down} takes away again with all that is in it`,
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

function judgeAddress(facts: Facts, cluster: Cluster): Problem[] {
  const { address, isOwn, others } = facts.address;
  const { isHost } = facts;
  const [first = 'ADDRESS'] = others;
  const wrong = [cluster.address, cluster.localAddress ?? cluster.address].find(
    (one) => unreachableKind(one) !== undefined && !facts.knownAddresses.includes(one),
  );
  if (wrong !== undefined) {
    return [
      {
        what: `${wrong}, by which others are to reach this host, is ${unreachableKind(wrong)}${others.length === 0 ? ', and the machine has no IPv4 address that leads out' : ''}`,
        remedy: others.length === 0 ? withoutOuter(facts.address) : `FLYNN_ADDRESS=${first}`,
      },
    ];
  }
  if (isOwn) return [];
  const has = others.length === 0 ? 'it has none that leads out' : `it has ${others.join(', ')}`;
  const again = isHost
    ? `give the machine ${cluster.address} again; or, where it has another one for good, and no other machine is this host (one of whose disk this one was made): FLYNN_ADDRESS=${first} ${commands.up} (docs/operating.md, "Another address")`
    : `FLYNN_ADDRESS=${first}`;
  return [
    {
      what: `${address}, by which others are to reach this host, is not an address of this machine: ${has}`,
      remedy: again,
    },
  ];
}

/** Of a machine that is in a VPN alone, or on a bridge that leads to the others, only people know that they reach it there. */
function withoutOuter({ doubtful = [] }: Facts['address']): string {
  const give = 'give the machine an IPv4 address that its network knows (IPv6 alone is not enough)';
  const [first] = doubtful;
  if (first === undefined) return `${give}, and run the same command again`;
  const known = doubtful.map(({ device, address }) => `${address} of ${device}`).join(', ');
  return `where the other hosts reach it at ${known}, say so: FLYNN_ADDRESS=${first.address}; or ${give}, and run the same command again`;
}

/** With new keys it would be made over the other one: its agent ended, its store's data removed. */
function judgeUnclaimed(
  { unclaimed, stateDir, isRoot, isNameGiven }: Facts,
  { name }: Cluster,
  scope: Scope,
): Problem[] {
  // Who may not look into the folder finds no cluster there.
  if (!isRoot) return [];
  // What there is of another than it joins is in nobody's way.
  if (scope === 'joining' && !isNameGiven) return [];
  const told = unclaimedText(unclaimed, { name, stateDir, command: commands.up });
  return told === undefined ? [] : [told];
}

function judgeTools({ nft, ip, wireguard }: Facts): Problem[] {
  const problems: Problem[] = [];
  if (wireguard !== undefined) {
    problems.push({
      what: `a host behind NAT is reached through WireGuard, and ${wireguard}`,
      remedy: wireguardRemedy,
    });
  }
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

function judgeClock({ clock: { now, notBefore, isSynchronized = false } }: Facts): Problem[] {
  // One that was ahead when the cluster was made, or these files were, would keep this host from everything until then.
  if (isSynchronized || now + clockSlackMs >= notBefore) return [];
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
      remedy: 'stop it, or choose another port: the same command again with FLYNN_HTTP_PORT=8080',
    },
    {
      port: httpsPortOf(cluster),
      use: 'HTTPS',
      remedy: 'stop it, or choose another port: the same command again with FLYNN_HTTPS_PORT=8443',
    },
    {
      port: cluster.gitPort,
      use: 'git',
      remedy: 'stop it, or choose another port: the same command again with FLYNN_GIT_PORT=2223',
    },
  ];
  for (const { port, use, remedy } of routerPorts) {
    const taken = facts.listeners.find((listener) => listener.protocol === 'tcp' && listener.port === port);
    if (taken !== undefined) problems.push({ what: `port ${port}, for ${use}, is used by ${ownerOf(taken)}`, remedy });
  }
  return problems;
}

/** Whoever has them now: no two of the router's may be the same, nor one that hosts need. */
function judgeChosenPorts(cluster: Cluster): Problem[] {
  const chosen = [
    { port: cluster.httpPort, use: 'HTTP', setting: 'FLYNN_HTTP_PORT' },
    { port: httpsPortOf(cluster), use: 'HTTPS', setting: 'FLYNN_HTTPS_PORT' },
    { port: cluster.gitPort, use: 'git', setting: 'FLYNN_GIT_PORT' },
  ] as const;
  return chosen.flatMap(({ port, use, setting }, index) => {
    const remedy = `choose another ${setting}`;
    const before = chosen.slice(0, index).find((one) => one.port === port);
    if (before !== undefined) return [{ what: `${before.use} and ${use} are both to use port ${port}`, remedy }];
    if (port > 65_535) return [{ what: `${use} is to use port ${port}, which is none`, remedy }];
    const needed = gatewayPorts.find((one) => one.protocol === 'tcp' && one.port === port);
    return needed === undefined ? [] : [{ what: `${use} is to use port ${port}, which is for ${needed.use}`, remedy }];
  });
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
  return [etcdPorts.client, etcdPorts.peer, routerStatusPort, ...tunnelPorts].includes(port);
}

function wantedAddresses(port: number, gateway: string, cluster: Cluster): string[] {
  return port === 53 || port === keyspacePort ? ['*', gateway] : ['*', gateway, '127.0.0.1', cluster.address];
}

function ownerOf(listener: Facts['listeners'][number]): string {
  return (
    listener.owner ?? (listener.protocol === 'udp' ? 'another program, or a tunnel of the kernel' : 'another program')
  );
}

/** The first few of many. */
export function listed(names: readonly string[]): string {
  const [shown, more] = [names.slice(0, 3).join(', '), names.length - 3];
  return more > 0 ? `${shown} and ${more} more` : shown;
}

export function sizeOf(bytes: number): string {
  return `${(bytes / 1000 ** 3).toFixed(1)} GB`;
}
