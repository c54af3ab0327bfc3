/** What is this host's network now? Read by one shell, so that looking often costs little. */
import { z } from 'zod';
import { type Tables, parseTables } from './iptables.ts';
import type { Command, Run } from './program.ts';
import { tableName } from './ruleset.ts';
import { routeProtocol, tunnelDevice } from './state.ts';
import type { Interface, NetworkSettings, Peer, Route, Tunnel } from './state.ts';

export type ActualNetwork = Readonly<{
  interfaces: readonly Interface[];
  bridge: Readonly<{ mac: string; isUp: boolean; hasGateway: boolean; hasRoute: boolean }> | undefined;
  routes: readonly Route[];
  tunnel: Tunnel | undefined;
  /** Gateways with their MAC addresses, and MAC addresses with their hosts. */
  neighbours: readonly Pick<Peer, 'gateway' | 'mac'>[];
  forwarding: readonly Pick<Peer, 'mac' | 'address'>[];
  /** What `readRules` answers. */
  rules: string;
  tables: Tables;
  sysctls: Readonly<Record<string, string>>;
}>;

const addressSchema = z.object({
  ifname: z.string().default(''),
  mtu: z.int().default(0),
  addr_info: z.array(z.object({ local: z.string().default(''), prefixlen: z.int().default(32) })).default([]),
});
const linkSchema = z.object({
  ifname: z.string().default(''),
  mtu: z.int().default(0),
  address: z.string().default(''),
  flags: z.array(z.string()).default([]),
  linkinfo: z
    .object({
      info_data: z
        .object({ id: z.int().default(0), port: z.int().default(0), local: z.string().default('') })
        .default({ id: 0, port: 0, local: '' }),
    })
    .optional(),
});
const routeSchema = z.object({
  dst: z.string(),
  gateway: z.string().optional(),
  dev: z.string().optional(),
  prefsrc: z.string().optional(),
});
const neighbourSchema = z.object({ dst: z.string(), lladdr: z.string().default('') });
const forwardingSchema = z.object({ mac: z.string(), dst: z.string().optional() });

/** The sections of the answer, in the order in which the shell writes them. */
function script({ cluster, bridge, subnet, vxlanId }: NetworkSettings, sysctls: readonly string[]): string {
  const device = tunnelDevice(vxlanId);
  // What is not there has an empty section.
  return [
    'part() { printf "\\n---\\n"; }',
    'ip -4 -j addr show; part',
    `ip -j link show dev ${bridge} 2>/dev/null; part`,
    `ip -j route show table main ${subnet} dev ${bridge} 2>/dev/null; part`,
    `ip -j route show table main proto ${routeProtocol}; part`,
    `ip -j -d link show dev ${device} 2>/dev/null; part`,
    `[ -e /proc/sys/net/ipv4/conf/${device} ] && ip -j neigh show dev ${device} nud permanent; part`,
    `[ -e /proc/sys/net/ipv4/conf/${device} ] && bridge -j fdb show dev ${device}; part`,
    `${listing(cluster)}; part`,
    'iptables-save 2>/dev/null; part',
    ...sysctls.map((name) => `printf '%s=' ${name}; cat /proc/sys/${name.replaceAll('.', '/')} 2>/dev/null || echo`),
  ].join('\n');
}

function listing(cluster: string): string {
  const table = tableName(cluster);
  return `nft -s list table ip ${table} 2>/dev/null; nft -s list table bridge ${table} 2>/dev/null`;
}

/** Our tables as nft lists them, in a form in which equal tables are equal; empty when they are not there. */
export async function readRules(cluster: string, run: Run, signal: AbortSignal): Promise<string> {
  return rulesOf(await run({ program: 'sh', args: ['-c', `${listing(cluster)}; true`] }, signal));
}

/** The elements of a set are listed in any order. */
function rulesOf(listed: string): string {
  return listed
    .trim()
    .split(/[\s,]+/)
    .sort()
    .join(' ');
}

export async function readInterfaces(run: Run, signal: AbortSignal): Promise<Interface[]> {
  return interfacesOf(await run({ program: 'ip', args: ['-4', '-j', 'addr', 'show'] }, signal));
}

function interfacesOf(text: string): Interface[] {
  return listOf(text, addressSchema)
    .filter(({ ifname }) => ifname !== '')
    .map(({ ifname, mtu, addr_info: addresses }) => ({
      name: ifname,
      mtu,
      subnets: addresses.map(({ local, prefixlen }) => `${local}/${prefixlen}`),
    }));
}

/** Without anything to tell, some programs say nothing. */
function listOf<T>(text: string, schema: z.ZodType<T>): T[] {
  return text.trim() === '' ? [] : z.array(schema).parse(JSON.parse(text));
}

export async function readNetwork(
  settings: NetworkSettings,
  sysctls: readonly string[],
  run: Run,
  signal: AbortSignal,
): Promise<ActualNetwork> {
  const command: Command = { program: 'sh', args: ['-c', script(settings, sysctls)] };
  return parseNetwork(await run(command, signal), settings);
}

export function parseNetwork(text: string, settings: NetworkSettings): ActualNetwork {
  const parts = text.split('\n---\n');
  const part = (index: number): string => parts[index] ?? '';
  const list = <T>(index: number, schema: z.ZodType<T>): T[] => listOf(part(index), schema);
  const interfaces = interfacesOf(part(0));
  const bridge = list(1, linkSchema)[0];
  const ofBridge = interfaces.find(({ name }) => name === settings.bridge);
  const tunnel = list(4, linkSchema)[0];
  return {
    interfaces,
    bridge:
      bridge === undefined
        ? undefined
        : {
            mac: bridge.address,
            isUp: bridge.flags.includes('UP'),
            hasGateway: ofBridge?.subnets.some((one) => one.split('/')[0] === settings.gateway) === true,
            hasRoute: list(2, routeSchema).length > 0,
          },
    routes: list(3, routeSchema).map((route) => routeOf(route, tunnelDevice(settings.vxlanId))),
    tunnel: tunnel === undefined ? undefined : tunnelOf(tunnel),
    neighbours: list(5, neighbourSchema).map(({ dst, lladdr }) => ({ gateway: dst, mac: lladdr })),
    forwarding: list(6, forwardingSchema).flatMap(({ mac, dst }) => (dst === undefined ? [] : [{ mac, address: dst }])),
    rules: rulesOf(part(7)),
    tables: parseTables(part(8)),
    sysctls: Object.fromEntries(
      part(9)
        .trim()
        .split('\n')
        .map((line) => line.split('='))
        .map(([name = '', value = '']) => [name, value.trim()]),
    ),
  };
}

function routeOf({ dst, gateway = '', dev, prefsrc = '' }: z.output<typeof routeSchema>, tunnel: string): Route {
  const route = { subnet: dst, via: gateway, source: prefsrc };
  return dev === tunnel ? { ...route, device: tunnel } : route;
}

function tunnelOf({ ifname, mtu, address, linkinfo }: z.output<typeof linkSchema>): Tunnel {
  const { id = 0, port = 0, local = '' } = linkinfo?.info_data ?? {};
  return { device: ifname, id, port, local, mac: address, mtu };
}
