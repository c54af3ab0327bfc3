/**
 * A network of its own for each test host: a namespace, a link to a bridge of this machine, and from there out, so that
 * builds reach their registries. Addresses are of TEST-NET-1 (RFC 5737).
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode } from '@flynn/kit/errors';
import { retry } from '@flynn/kit/retry';
import { withHostLock } from '../host-lock.ts';
import { runProgram, tryProgram } from '../machine/program.ts';

const timeoutMs = 20_000;
/** Others that make hosts meanwhile take a second for each. */
const turnMs = 60_000;
const prefixLength = 25;
const namespaceDir = '/var/run/netns';

/** Hosts that share a bridge and a folder, and never collide with those of another family. */
export type HostFamily = Readonly<{
  /** Below which each host has its directory. */
  root: string;
  /** What names of namespaces, links and control groups begin with; at most 11 characters. */
  prefix: string;
  /** This machine as its hosts reach it. */
  gateway: string;
  range: string;
  /** Of the host with index 0; the others follow. */
  firstAddress: string;
}>;

/** Of the test suites. */
export const suiteHosts: HostFamily = {
  root: '/var/lib/flynn-test',
  prefix: 'flynntest',
  gateway: '192.0.2.129',
  range: `192.0.2.128/${prefixLength}`,
  firstAddress: '192.0.2.130',
};

/** Of `up --hosts`. */
export const clusterHosts: HostFamily = {
  root: '/var/lib/flynn-hosts',
  prefix: 'flynnhost',
  gateway: '192.0.2.126',
  range: `192.0.2.0/${prefixLength}`,
  firstAddress: '192.0.2.1',
};

export type HostNetwork = Readonly<{
  family: HostFamily;
  namespace: string;
  address: string;
  /** Its cable, or that of the router it is behind, at the bridge. */
  link: string;
  nat?: Nat;
}>;

/** A router at home: it lets out all, and in what was asked for. */
type Nat = Readonly<{ namespace: string; outerAddress: string; innerAddress: string }>;

/** Of each private network behind NAT: nobody else reaches it, so all are alike, as at home. */
const innerAddresses = { router: '192.0.2.241', host: '192.0.2.242', prefixLength: 28 } as const;

/** `index` from 0 to 99; two hosts of a family at once need two. */
export function hostNetworkOf(
  family: HostFamily,
  name: string,
  index: number,
  { isBehindNat = false }: { isBehindNat?: boolean } = {},
): HostNetwork {
  const [, base = '', last = '0'] = /^(.*\.)(\d+)$/.exec(family.firstAddress) ?? [];
  const outerAddress = `${base}${Number(last) + index}`;
  const namespace = `${family.prefix}-${name}`;
  const own = { family, namespace, link: `${family.prefix}${index + 1}` };
  if (!isBehindNat) return { ...own, address: outerAddress };
  const { router, host } = innerAddresses;
  return { ...own, address: host, nat: { namespace: `${namespace}-nat`, outerAddress, innerAddress: router } };
}

/** The namespace as a file that nsenter takes. */
export function namespaceFile(network: HostNetwork): string {
  return `${namespaceDir}/${network.namespace}`;
}

/** Of all hosts that exist, of whichever family. */
export function namespaceFiles(): string[] {
  if (!existsSync(namespaceDir)) return [];
  const families = [suiteHosts, clusterHosts];
  return readdirSync(namespaceDir)
    .filter((name) => families.some(({ prefix }) => name.startsWith(`${prefix}-`)))
    .map((name) => `${namespaceDir}/${name}`);
}

const bridgeOf = (family: HostFamily): string => `${family.prefix}0`;

function rulesOf(family: HostFamily) {
  const { range } = family;
  const bridge = bridgeOf(family);
  return [
    ['nat', 'POSTROUTING', '-s', range, '!', '-d', range, '-j', 'MASQUERADE'],
    // The machine's own engine drops what it does not forward itself.
    ['filter', 'FORWARD', '-i', bridge, '-j', 'ACCEPT'],
    ['filter', 'FORWARD', '-o', bridge, '-j', 'ACCEPT'],
  ] as const;
}

/** Several may be made and removed at the same time, also by several programs. */
export async function ensureHostNetwork(network: HostNetwork): Promise<void> {
  // Both are gone after a boot; one without the other is what an interrupted start left.
  if (existsSync(namespaceFile(network)) && existsSync(`/sys/class/net/${network.link}`)) return;
  await inTurn(network.family, () => makeHostNetwork(network));
}

/** The bridge comes with its first host and goes with its last. */
async function inTurn(family: HostFamily, task: () => Promise<void>): Promise<void> {
  await retry(() => withHostLock(join(family.root, 'network'), 'making a network of hosts', task), {
    what: `the bridge ${bridgeOf(family)} to be free`,
    deadlineMs: turnMs,
    maxMs: 200,
    isRetryable: (error) => hasCode(error, 'conflict'),
  });
}

async function makeHostNetwork(network: HostNetwork): Promise<void> {
  await cutHostNetwork(network);
  const { family, namespace, link, address, nat } = network;
  await ensureBridge(family);
  await makeNamespace(namespace);
  if (nat === undefined) {
    await plugInto(family, link, { namespace, device: 'eth0', address });
    return;
  }
  await makeNamespace(nat.namespace);
  await plugInto(family, link, { namespace: nat.namespace, device: 'wan', address: nat.outerAddress });
  const length = innerAddresses.prefixLength;
  const inner = ['peer', 'name', 'eth0', 'address', macOf(address), 'netns', namespace];
  await ip('-n', nat.namespace, 'link', 'add', 'lan', 'address', macOf(nat.innerAddress), 'type', 'veth', ...inner);
  await ip('-n', nat.namespace, 'addr', 'add', `${nat.innerAddress}/${length}`, 'dev', 'lan');
  await ip('-n', nat.namespace, 'link', 'set', 'lan', 'up');
  await ip('-n', namespace, 'addr', 'add', `${address}/${length}`, 'dev', 'eth0');
  await ip('-n', namespace, 'link', 'set', 'eth0', 'up');
  await ip('-n', namespace, 'route', 'add', 'default', 'via', nat.innerAddress);
  for (const rule of natRules) {
    await runProgram('ip', ['netns', 'exec', nat.namespace, 'iptables', '-w', ...rule], { timeoutMs });
  }
}

const natRules = [
  ['-t', 'nat', '-A', 'POSTROUTING', '-o', 'wan', '-j', 'MASQUERADE'],
  ['-A', 'FORWARD', '-i', 'wan', '-m', 'conntrack', '!', '--ctstate', 'RELATED,ESTABLISHED', '-j', 'DROP'],
] as const;

async function makeNamespace(namespace: string): Promise<void> {
  await ip('netns', 'add', namespace);
  await ip('-n', namespace, 'link', 'set', 'lo', 'up');
  const forward = 'echo 1 > /proc/sys/net/ipv4/ip_forward';
  await runProgram('nsenter', [`--net=${namespaceDir}/${namespace}`, 'sh', '-c', forward], { timeoutMs });
}

type Plug = Readonly<{ namespace: string; device: string; address: string }>;

async function plugInto(family: HostFamily, link: string, { namespace, device, address }: Plug): Promise<void> {
  const peer = ['peer', 'name', device, 'address', macOf(address), 'netns', namespace];
  await ip('link', 'add', link, 'type', 'veth', ...peer);
  await ip('link', 'set', link, 'master', bridgeOf(family), 'up');
  await ip('-n', namespace, 'addr', 'add', `${address}/${prefixLength}`, 'dev', device);
  await ip('-n', namespace, 'link', 'set', device, 'up');
  await ip('-n', namespace, 'route', 'add', 'default', 'via', family.gateway);
}

/**
 * A machine keeps its network card through a boot. With another one, all who had to do with it send to the former for up to ten
 * seconds more.
 */
function macOf(address: string): string {
  const bytes = address.split('.').map((byte) => Number(byte).toString(16).padStart(2, '0'));
  return ['02', '01', ...bytes].join(':');
}

/** What a machine that loses power loses: routes, rules, interfaces. A router that it is behind goes with it. */
export async function cutHostNetwork(network: HostNetwork): Promise<void> {
  await tryProgram('ip', ['netns', 'del', network.namespace], { timeoutMs });
  if (network.nat !== undefined) await tryProgram('ip', ['netns', 'del', network.nat.namespace], { timeoutMs });
  await tryProgram('ip', ['link', 'del', network.link], { timeoutMs });
}

/** Also what an earlier run that was killed left behind. */
export async function removeHostNetwork(network: HostNetwork): Promise<void> {
  await cutHostNetwork(network);
  await inTurn(network.family, () => removeUnusedBridge(network.family));
}

async function removeUnusedBridge(family: HostFamily): Promise<void> {
  const links = await tryProgram('ip', ['-o', 'link', 'show', 'master', bridgeOf(family)], { timeoutMs });
  if (links.code !== 0 || links.stdout.trim() !== '') return;
  for (const [table, chain, ...rule] of rulesOf(family)) {
    await tryProgram('iptables', ['-w', '-t', table, '-D', chain, ...rule], { timeoutMs });
  }
  await tryProgram('ip', ['link', 'del', bridgeOf(family)], { timeoutMs });
}

/**
 * A bridge that is given none takes the least of its links', and another once that link is cut: its other hosts would send all
 * that goes out to nobody, for as long as they believe in the former.
 */
const bridgeMac = '02:00:c0:00:02:01';

async function ensureBridge(family: HostFamily): Promise<void> {
  const bridge = bridgeOf(family);
  const existing = await tryProgram('ip', ['link', 'show', bridge], { timeoutMs });
  if (existing.code !== 0) {
    await ip('link', 'add', bridge, 'address', bridgeMac, 'type', 'bridge');
    await ip('addr', 'add', `${family.gateway}/${prefixLength}`, 'dev', bridge);
  }
  await ip('link', 'set', bridge, 'up');
  for (const [table, chain, ...rule] of rulesOf(family)) {
    const has = await tryProgram('iptables', ['-w', '-t', table, '-C', chain, ...rule], { timeoutMs });
    if (has.code !== 0) await runProgram('iptables', ['-w', '-t', table, '-I', chain, ...rule], { timeoutMs });
  }
  await runProgram('sh', ['-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward'], { timeoutMs });
}

/** Pulls or plugs the host's cable. */
export async function setLink(network: HostNetwork, state: 'up' | 'down'): Promise<void> {
  await ip('link', 'set', network.link, state);
}

/** Nobody hears of it any more, if anybody could. */
export async function silenceHost(network: HostNetwork): Promise<void> {
  await tryProgram('ip', ['link', 'set', network.link, 'down'], { timeoutMs });
}

/** What comes to the host comes at this rate, after waiting its turn for up to half a second; as fast as it can without one. */
export async function setRate(network: HostNetwork, kilobitsPerSecond: number | undefined): Promise<void> {
  const device = ['qdisc', kilobitsPerSecond === undefined ? 'del' : 'replace', 'dev', network.link, 'root'];
  const rate = ['tbf', 'rate', `${kilobitsPerSecond}kbit`, 'burst', '32kbit', 'latency', '500ms'];
  if (kilobitsPerSecond !== undefined) await runProgram('tc', [...device, ...rate], { timeoutMs });
  // There may be none, or no link any more.
  else await tryProgram('tc', device, { timeoutMs });
}

async function ip(...args: readonly string[]): Promise<void> {
  await runProgram('ip', args, { timeoutMs });
}
