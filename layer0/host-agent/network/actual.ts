/** What is this host's network now? Read by one shell, so that looking often costs little. */
import { z } from 'zod';
import { type Tables, parseTables } from './iptables.ts';
import type { Command, Run } from './program.ts';
import { tableName } from './ruleset.ts';
import { routeProtocol, tunnelDevice } from './state.ts';
import type { Interface, NetworkSettings, Peer, Route, Tunnel } from './state.ts';
import { type ActualWireguard, parseTransfer, parseWireguard, showScript, transferScript } from './wireguard-show.ts';

export type ActualNetwork = Readonly<{
  interfaces: readonly Interface[];
  bridge: Readonly<{ mac: string; isUp: boolean; hasGateway: boolean; hasRoute: boolean }> | undefined;
  routes: readonly Route[];
  tunnel: Tunnel | undefined;
  /** Gateways with their MAC addresses, and MAC addresses with their hosts. */
  neighbours: readonly Pick<Peer, 'gateway' | 'mac'>[];
  forwarding: readonly Pick<Peer, 'mac' | 'address'>[];
  wireguard: ActualWireguard | undefined;
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
const neighbourSchema = z.object({ dst: z.string(), dev: z.string().default(''), lladdr: z.string().default('') });
const forwardingSchema = z.object({ mac: z.string(), dst: z.string().optional() });

/** What one `ip` answers one after the other, a line each; nothing of it fails where there is nothing to tell. */
const questions = [
  'addr show',
  'link show type bridge',
  'link show type vxlan',
  'route show table main proto kernel',
  `route show table main proto ${routeProtocol}`,
  'neigh show nud permanent',
  'link show type wireguard',
  // What wireguard-go makes.
  'link show type tun',
] as const;

const separator = '\n---\n';

/** The sections of the answer, in the order in which the shell writes them: every program that it starts costs milliseconds. */
function script({ cluster, vxlanId, wireguard }: NetworkSettings, sysctls: readonly string[]): string {
  const device = tunnelDevice(vxlanId);
  // What is not there has an empty section.
  return [
    'part() { printf "\\n---\\n"; }',
    `printf '%s\\n' ${questions.map((question) => `'${question}'`).join(' ')} | ip -4 -d -j -batch - || exit 1; part`,
    `[ -e /proc/sys/net/ipv4/conf/${device} ] && bridge -j fdb show dev ${device}; part`,
    `${showScript(wireguard.device)}; part`,
    `${listing(cluster)}; part`,
    'iptables-save 2>/dev/null; part',
    ...sysctls.map((name) => {
      const file = `/proc/sys/${name.replaceAll('.', '/')}`;
      return `value=; read -r value 2>/dev/null <${file}; echo "${name}=$value"`;
    }),
    `part; ${transferScript(wireguard.device)}; true`,
  ].join('\n');
}

function listing(cluster: string): string {
  const table = tableName(cluster);
  // Not both at once: of two families nft only finds the last (1.0.6).
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

/**
 * What the machine says of its network, for `parseNetwork`: equal as long as nothing has changed. And how many bytes came through
 * WireGuard, by the peer's key.
 */
export async function readNetwork(
  settings: NetworkSettings,
  sysctls: readonly string[],
  run: Run,
  signal: AbortSignal,
): Promise<{ text: string; received: Map<string, number> }> {
  const command: Command = { program: 'sh', args: ['-c', script(settings, sysctls)] };
  const said = await run(command, signal);
  const end = said.lastIndexOf(separator);
  return { text: withoutChanging(said.slice(0, end)), received: parseTransfer(said.slice(end + separator.length)) };
}

/** Times and counters that go on by themselves. */
function withoutChanging(text: string): string {
  return text.replaceAll(/^#.*$|\[\d+:\d+\]$|,"(?:valid|preferred)_life_time":\d+/gm, '');
}

export function parseNetwork(text: string, settings: NetworkSettings): ActualNetwork {
  const [answers = '', fdb = '', shown = '', rules = '', tables = '', sysctls = ''] = text.split(separator);
  const [addresses = '', bridges = '', tunnels = '', ofKernel = '', ofOurs = '', permanent = '', ...others] =
    answers.split('\n');
  const device = tunnelDevice(settings.vxlanId);
  const devices = [device, settings.wireguard.device];
  const interfaces = interfacesOf(addresses);
  const bridge = listOf(bridges, linkSchema).find(({ ifname }) => ifname === settings.bridge);
  const ofBridge = interfaces.find(({ name }) => name === settings.bridge);
  const tunnel = listOf(tunnels, linkSchema).find(({ ifname }) => ifname === device);
  const wireguard = others
    .flatMap((links) => listOf(links, linkSchema))
    .find(({ ifname }) => ifname === settings.wireguard.device);
  return {
    interfaces,
    bridge:
      bridge === undefined
        ? undefined
        : {
            mac: bridge.address,
            isUp: bridge.flags.includes('UP'),
            hasGateway: ofBridge?.subnets.some((one) => one.split('/')[0] === settings.gateway) === true,
            hasRoute: listOf(ofKernel, routeSchema).some(
              ({ dst, dev }) => dst === settings.subnet && dev === settings.bridge,
            ),
          },
    routes: listOf(ofOurs, routeSchema).map((route) => routeOf(route, devices)),
    tunnel: tunnel === undefined ? undefined : tunnelOf(tunnel),
    neighbours: listOf(permanent, neighbourSchema)
      .filter(({ dev }) => dev === device)
      .map(({ dst, lladdr }) => ({ gateway: dst, mac: lladdr })),
    forwarding: listOf(fdb, forwardingSchema).flatMap(({ mac, dst }) =>
      dst === undefined ? [] : [{ mac, address: dst }],
    ),
    wireguard:
      wireguard === undefined
        ? undefined
        : parseWireguard(shown, { isUp: wireguard.flags.includes('UP'), mtu: wireguard.mtu }),
    rules: rulesOf(rules),
    tables: parseTables(tables),
    sysctls: Object.fromEntries(
      sysctls
        .trim()
        .split('\n')
        .map((line) => line.split('='))
        .map(([name = '', value = '']) => [name, value.trim()]),
    ),
  };
}

function routeOf({ dst, gateway, dev, prefsrc = '' }: z.output<typeof routeSchema>, devices: readonly string[]): Route {
  const route = { subnet: dst, source: prefsrc, ...(gateway === undefined ? {} : { via: gateway }) };
  return dev !== undefined && devices.includes(dev) ? { ...route, device: dev } : route;
}

function tunnelOf({ ifname, mtu, address, linkinfo }: z.output<typeof linkSchema>): Tunnel {
  const { id = 0, port = 0, local = '' } = linkinfo?.info_data ?? {};
  return { device: ifname, id, port, local, mac: address, mtu };
}
