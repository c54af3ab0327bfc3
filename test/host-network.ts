/**
 * A network of its own for each test host: a namespace, a link to a bridge of this machine, and from there out, so that
 * builds reach their registries. Addresses are of TEST-NET-1 (RFC 5737), of its upper half.
 */
import { runProgram, tryProgram } from '@flynn/bootstrap/program';

const bridge = 'flynntest0';
export const bridgeAddress = '192.0.2.129';
const range = '192.0.2.128/25';
const prefixLength = 25;
const timeoutMs = 20_000;

export type HostNetwork = Readonly<{ namespace: string; address: string; link: string }>;

/** `index` from 0 to 99; two hosts at once need two. */
export function hostNetworkOf(name: string, index: number): HostNetwork {
  return { namespace: `flynntest-${name}`, address: `192.0.2.${130 + index}`, link: `flynntest${index + 1}` };
}

/** The namespace as a file that nsenter takes. */
export function namespaceFile(network: HostNetwork): string {
  return `/var/run/netns/${network.namespace}`;
}

const rules = [
  ['nat', 'POSTROUTING', '-s', range, '!', '-d', range, '-j', 'MASQUERADE'],
  // The machine's own engine drops what it does not forward itself.
  ['filter', 'FORWARD', '-i', bridge, '-j', 'ACCEPT'],
  ['filter', 'FORWARD', '-o', bridge, '-j', 'ACCEPT'],
] as const;

export async function createHostNetwork(network: HostNetwork): Promise<void> {
  await ensureBridge();
  const { namespace, link } = network;
  const inside = ['netns', 'exec', namespace, 'ip'];
  await ip('netns', 'add', namespace);
  await ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
  await ip('link', 'set', link, 'master', bridge, 'up');
  await ip(...inside, 'link', 'set', 'lo', 'up');
  await ip(...inside, 'addr', 'add', `${network.address}/${prefixLength}`, 'dev', 'eth0');
  await ip(...inside, 'link', 'set', 'eth0', 'up');
  await ip(...inside, 'route', 'add', 'default', 'via', bridgeAddress);
  const forward = 'echo 1 > /proc/sys/net/ipv4/ip_forward';
  await runProgram('nsenter', [`--net=${namespaceFile(network)}`, 'sh', '-c', forward], { timeoutMs });
}

/** Also what an earlier run that was killed left behind. */
export async function removeHostNetwork(network: HostNetwork): Promise<void> {
  await tryProgram('ip', ['netns', 'del', network.namespace], { timeoutMs });
  await tryProgram('ip', ['link', 'del', network.link], { timeoutMs });
  const links = await tryProgram('ip', ['-o', 'link', 'show', 'master', bridge], { timeoutMs });
  if (links.code !== 0 || links.stdout.trim() !== '') return;
  for (const [table, chain, ...rule] of rules) {
    await tryProgram('iptables', ['-w', '-t', table, '-D', chain, ...rule], { timeoutMs });
  }
  await tryProgram('ip', ['link', 'del', bridge], { timeoutMs });
}

async function ensureBridge(): Promise<void> {
  const existing = await tryProgram('ip', ['link', 'show', bridge], { timeoutMs });
  if (existing.code !== 0) {
    await ip('link', 'add', bridge, 'type', 'bridge');
    await ip('addr', 'add', `${bridgeAddress}/${prefixLength}`, 'dev', bridge);
  }
  await ip('link', 'set', bridge, 'up');
  for (const [table, chain, ...rule] of rules) {
    const has = await tryProgram('iptables', ['-w', '-t', table, '-C', chain, ...rule], { timeoutMs });
    if (has.code !== 0) await runProgram('iptables', ['-w', '-t', table, '-I', chain, ...rule], { timeoutMs });
  }
  await runProgram('sh', ['-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward'], { timeoutMs });
}

async function ip(...args: readonly string[]): Promise<void> {
  await runProgram('ip', args, { timeoutMs });
}
