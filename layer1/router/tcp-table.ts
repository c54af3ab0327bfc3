/**
 * Whose kernel does not answer ours any more? Only Linux tells (proc(5), /proc/net/tcp): for every connection, how often in
 * a row something was sent again, or its peer was asked whether it is there, without any answer. An app that is busy, stopped
 * or does not read still has a kernel that answers; a host without power has none.
 */
import { readFile } from 'node:fs/promises';
import { isIPv4, isIPv6 } from 'node:net';

/** `address:port` → how often in a row; none that answers is in it. */
export type Unanswered = (addresses: readonly string[]) => Promise<ReadonlyMap<string, number>>;

/** What the kernel waits with: for an acknowledgement, or for a sign of life, or for room. */
const waits = { acknowledgement: '01', life: '02', room: '04' } as const;
const connecting = '02';

/** Throws what reading throws: where there is no such table nothing can be known. */
export const unansweredInKernel: Unanswered = async (addresses) => {
  const wanted = new Map<string, string>();
  for (const address of addresses) {
    const key = keyOf(address);
    if (key !== undefined) wanted.set(key, address);
  }
  const lengths = new Set([...wanted.keys()].map((key) => key.length));
  const files = [...(lengths.has(13) ? ['/proc/net/tcp'] : []), ...(lengths.has(37) ? ['/proc/net/tcp6'] : [])];
  const found = new Map<string, number>();
  for (const file of files) {
    for (const [key, times] of timesIn(await readFile(file, 'latin1'), wanted)) {
      const address = wanted.get(key) ?? '';
      found.set(address, Math.max(times, found.get(address) ?? 0));
    }
  }
  return found;
};

/** Of the peers that are wanted, by their keys; connections that are being made are left out. */
export function* timesIn(
  table: string,
  wanted: { has(key: string): boolean },
): Generator<[key: string, times: number]> {
  for (let from = table.indexOf('\n') + 1; from > 0 && from < table.length;) {
    const end = table.indexOf('\n', from);
    const line = table.slice(from, end < 0 ? table.length : end);
    from = end + 1;
    // sl local remote state tx:rx timer:when retransmitted uid probes …
    const [, , remote = '', state, , timer = '', retransmitted = '', , probes = ''] = line.trimStart().split(/ +/, 9);
    if (state === connecting || !wanted.has(remote)) continue;
    const kind = timer.slice(0, 2);
    const times =
      kind === waits.acknowledgement
        ? Number.parseInt(retransmitted, 16)
        : kind === waits.life || kind === waits.room
          ? Number(probes)
          : 0;
    if (times > 0) yield [remote, times];
  }
}

/** As the table has it: words of 32 bits, each with its bytes in the order of a little-endian machine. */
export function keyOf(address: string): string | undefined {
  const colon = address.lastIndexOf(':');
  const bytes = bytesOf(address.slice(0, colon).replace(/^\[|\]$/g, ''));
  if (bytes === undefined) return undefined;
  const port = Number(address.slice(colon + 1));
  return `${bytes.swap32().toString('hex')}:${port.toString(16).padStart(4, '0')}`.toUpperCase();
}

function bytesOf(host: string): Buffer | undefined {
  if (isIPv4(host)) return Buffer.from(host.split('.').map(Number));
  if (!isIPv6(host) || host.includes('%')) return undefined;
  // The one form that URLs have of it: hexadecimal groups throughout.
  const [before = '', after] = new URL(`http://[${host}]`).hostname.slice(1, -1).split('::');
  const groupsOf = (text: string) => text.split(':').filter((group) => group !== '');
  const head = groupsOf(before);
  const tail = groupsOf(after ?? '');
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0');
  return Buffer.from([...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join(''), 'hex');
}
