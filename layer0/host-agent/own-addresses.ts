/** Which IPv4 addresses are this machine's? */
import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';

/** Of the kernel's own table, which has those too that no cable is plugged in for, or whose bridge has nobody on it yet. */
export async function ownAddresses(): Promise<ReadonlySet<string>> {
  return parseAddresses(await readFile('/proc/net/fib_trie', 'utf8'));
}

export function parseAddresses(fibTrie: string): ReadonlySet<string> {
  const lines = fibTrie.split('\n').map((line) => line.trim());
  return new Set(
    lines.flatMap((line, at) =>
      line.startsWith('|-- ') && lines[at + 1] === '/32 host LOCAL' ? [line.slice('|-- '.length)] : [],
    ),
  );
}

/** Bridges, tunnels and the ends of wires that lead into containers: other machines reach none of them. */
const inner = /^(?:lo$|docker|br-|veth|flynn|virbr|cni|tun|tap)/;

/** Those at which other machines may reach this one, by the names of their devices. `bridge`: the containers'. */
export function outerAddresses(bridge: string): string[] {
  return Object.entries(networkInterfaces()).flatMap(([device, addresses]) =>
    device === bridge || inner.test(device)
      ? []
      : (addresses ?? [])
          .filter(({ family, internal }) => family === 'IPv4' && !internal)
          .map(({ address }) => address),
  );
}
