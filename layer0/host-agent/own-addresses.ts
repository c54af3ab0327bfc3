/** Which IPv4 addresses are this machine's? */
import { existsSync, readFileSync } from 'node:fs';
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

/** The kernel's table, which is there on every Linux. */
const routesFile = '/proc/net/route';

/** The address that leads out, or failing that any but the loopback's. */
export function primaryAddress(): string {
  const routes = existsSync(routesFile) ? readFileSync(routesFile, 'utf8') : '';
  const device = routes
    .split('\n')
    .map((line) => line.split('\t'))
    .find(([, destination, , , , , , mask]) => destination === '00000000' && mask === '00000000')?.[0];
  const interfaces = Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? [])
      .filter((one) => one.family === 'IPv4' && !one.internal)
      .map((one) => ({ name, address: one.address })),
  );
  return (interfaces.find((one) => one.name === device) ?? interfaces[0])?.address ?? '127.0.0.1';
}

/**
 * Of a host behind NAT, in its own network: the address that leads out, or where that is a tunnel's, as of a VPN that is on, the
 * first of its other devices.
 */
export function lanAddress(bridge: string): string {
  const primary = primaryAddress();
  const outer = outerAddresses(bridge);
  return outer.includes(primary) ? primary : (outer[0] ?? primary);
}

/** Bridges, tunnels and the ends of wires that lead into containers: other machines reach none of them. */
const inner = /^(?:lo$|docker|br-|veth|flynn|virbr|cni|tun|tap|wg|flwg|tailscale)/;

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
