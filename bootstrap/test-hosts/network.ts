/**
 * A network of its own for each test host: a namespace, a link to a bridge of this machine, and from there out, so that
 * builds reach their registries. Addresses are of TEST-NET-1 (RFC 5737).
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode } from '@flynn/kit/errors';
import { retry } from '@flynn/kit/retry';
import { withHostLock } from '../host-lock.ts';
import { runProgram, tryProgram } from '../program.ts';

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

export type HostNetwork = Readonly<{ family: HostFamily; namespace: string; address: string; link: string }>;

/** `index` from 0 to 99; two hosts of a family at once need two. */
export function hostNetworkOf(family: HostFamily, name: string, index: number): HostNetwork {
  const [, base = '', last = '0'] = /^(.*\.)(\d+)$/.exec(family.firstAddress) ?? [];
  return {
    family,
    namespace: `${family.prefix}-${name}`,
    address: `${base}${Number(last) + index}`,
    link: `${family.prefix}${index + 1}`,
  };
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
  await ensureBridge(network.family);
  const { family, namespace, link } = network;
  const inside = ['netns', 'exec', namespace, 'ip'];
  await ip('netns', 'add', namespace);
  await ip(...inside, 'link', 'set', 'lo', 'up');
  await ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
  await ip('link', 'set', link, 'master', bridgeOf(family), 'up');
  await ip(...inside, 'addr', 'add', `${network.address}/${prefixLength}`, 'dev', 'eth0');
  await ip(...inside, 'link', 'set', 'eth0', 'up');
  await ip(...inside, 'route', 'add', 'default', 'via', family.gateway);
  const forward = 'echo 1 > /proc/sys/net/ipv4/ip_forward';
  await runProgram('nsenter', [`--net=${namespaceFile(network)}`, 'sh', '-c', forward], { timeoutMs });
}

/** What a machine that loses power loses: routes, rules, interfaces. */
export async function cutHostNetwork(network: HostNetwork): Promise<void> {
  await tryProgram('ip', ['netns', 'del', network.namespace], { timeoutMs });
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
