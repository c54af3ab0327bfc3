/**
 * Can this machine's nft and ip do what the network is made of? Asked of them, for versions are numbered differently
 * everywhere.
 */
import type { Tool } from './preflight.ts';
import { hasProgram, tryProgram } from './program.ts';

const timeoutMs = 10_000;

/** A rule of each kind that older versions, or kernels without a part of nf_tables, refuse. Only checked, never applied. */
export const probe = `table ip flynn_probe {
  set places { type ipv4_addr . inet_service; }
  map jobs { type ipv4_addr : verdict; }
  chain decide { ip saddr vmap @jobs; drop; }
  chain forward {
    type filter hook forward priority -10; policy accept;
    meta l4proto { tcp, udp } ip daddr . th dport @places accept
    ct status dnat accept
    goto decide
  }
  chain postrouting { type nat hook postrouting priority 90; policy accept; ip saddr 192.0.2.0/24 masquerade; }
}
table bridge flynn_probe {
  chain prerouting {
    type filter hook prerouting priority -300; policy accept;
    ip daddr 192.0.2.0/24 ether daddr set 02:00:00:00:00:01 meta pkttype set host
  }
}
`;

/** Undefined where there is none, or who asks may not try it. */
export async function lookAtNft(): Promise<Tool | undefined> {
  if (!hasProgram('nft') || process.getuid?.() !== 0) return undefined;
  const version = await versionOf('nft', '--version');
  const { code, stderr } = await tryProgram('nft', ['-c', '-f', '-'], { timeoutMs, input: probe });
  return code === 0 ? { version } : { version, refusal: firstLine(stderr) };
}

export async function lookAtIp(): Promise<Tool | undefined> {
  if (!hasProgram('ip')) return undefined;
  const version = await versionOf('ip', '-V');
  const { code, stdout, stderr } = await tryProgram('ip', ['-4', '-j', 'addr', 'show', 'dev', 'lo'], { timeoutMs });
  if (code !== 0) return { version, refusal: firstLine(stderr) };
  return isJsonList(stdout) ? { version } : { version, refusal: 'its answer is not JSON' };
}

/**
 * Why there can be no WireGuard device, which neither a host behind NAT nor one of an encrypted cluster does without; undefined
 * where there can.
 */
export async function lookAtWireguard(): Promise<string | undefined> {
  if (!hasProgram('wg')) return 'wg is not installed';
  if (hasProgram('wireguard-go') || process.getuid?.() !== 0) return undefined;
  const device = 'flynnprobe';
  // Of a look that was killed: what is left of it would be taken for a kernel without.
  await tryProgram('ip', ['link', 'del', device], { timeoutMs });
  const { code, stderr } = await tryProgram('ip', ['link', 'add', device, 'type', 'wireguard'], { timeoutMs });
  if (code !== 0) return `the kernel has no WireGuard (${firstLine(stderr)}), and wireguard-go is not installed`;
  await tryProgram('ip', ['link', 'del', device], { timeoutMs });
  return undefined;
}

async function versionOf(program: string, flag: string): Promise<string> {
  const { stdout, stderr } = await tryProgram(program, [flag], { timeoutMs });
  return versionIn(`${stdout}${stderr}`);
}

/** "v1.0.6", "iproute2-6.1.0", "iproute2-ss200127". */
export function versionIn(text: string): string {
  return /(iproute2-[\w.-]*\w|v\d[\w.]*)/.exec(text)?.[1] ?? 'of an unknown version';
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] || 'it says nothing';
}

function isJsonList(text: string): boolean {
  try {
    return Array.isArray(JSON.parse(text));
  } catch {
    return false;
  }
}
