/** Which IPv4 addresses are this machine's? */
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { overlaps } from '../network/addresses.ts';

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

/** Why other machines cannot reach a host by an address, as what they take it for; undefined where they may. */
export function unreachableKind(address: string): string | undefined {
  return unreachable.find(([subnet]) => overlaps(subnet, address))?.[1];
}

const unreachable = [
  ['0.0.0.0/8', 'no machine’s own'],
  ['127.0.0.0/8', 'the loopback’s, which every machine has'],
  ['169.254.0.0/16', 'link-local, good for its own wire alone'],
  ['224.0.0.0/4', 'a multicast one'],
  ['240.0.0.0/4', 'of a range that is not in use'],
] as const;

/** Of a machine that has no other. */
const loopback = '127.0.0.1';

/** The address that leads out, else any at which other machines may reach this one; the loopback's where there is none. */
export function primaryAddress(): string {
  const routes = existsSync(routesFile) ? readFileSync(routesFile, 'utf8') : '';
  return chooseAddress(routes, networkInterfaces());
}

/** `routes`: the text of /proc/net/route. */
export function chooseAddress(routes: string, interfaces: Interfaces): string {
  const device = routes
    .split('\n')
    .map((line) => line.split('\t'))
    .find(([, destination, , , , , , mask]) => destination === '00000000' && mask === '00000000')?.[0];
  const all = reachableOf(interfaces);
  // A bridge of containers is there also while the network is not.
  return (all.find((one) => one.device === device) ?? all.find((one) => !inner.test(one.device)))?.address ?? loopback;
}

/** Whether there is an address that `primaryAddress` would give. */
export function hasAddress(): boolean {
  return primaryAddress() !== loopback;
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
  return reachableOf(networkInterfaces()).flatMap(({ device, address }) =>
    device === bridge || inner.test(device) ? [] : [address],
  );
}

/** Of those devices, the ones of an engine's or a supervisor's own: what is on them is in containers or machines on this one. */
const contained = /^(?:lo$|docker|br-[0-9a-f]{12}$|veth|flynn|virbr|cni|flwg)/;

/** At which others may reach this machine although its device looks inner, as where hosts are in a VPN: people have to say so. */
export function doubtfulAddresses(bridge: string, interfaces: Interfaces = networkInterfaces()): DeviceAddress[] {
  return reachableOf(interfaces).filter(
    ({ device }) => device !== bridge && inner.test(device) && !contained.test(device),
  );
}

export type DeviceAddress = Readonly<{ device: string; address: string }>;
type Interfaces = ReturnType<typeof networkInterfaces>;

function reachableOf(interfaces: Interfaces): DeviceAddress[] {
  return Object.entries(interfaces).flatMap(([device, addresses]) =>
    (addresses ?? [])
      .filter(
        ({ family, internal, address }) => family === 'IPv4' && !internal && unreachableKind(address) === undefined,
      )
      .map(({ address }) => ({ device, address })),
  );
}
