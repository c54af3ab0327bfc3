/** Which commands make the network what it should be? Each comes with what was wrong, for people. */
import { overlaps } from './addresses.ts';
import type { ActualNetwork } from './actual.ts';
import { iptablesChanges } from './iptables.ts';
import type { Command } from './program.ts';
import { migrateSysctl, retriesSysctl, routeProtocol } from './state.ts';
import type { NetworkSettings, NetworkState, Peer, Route, Tunnel } from './state.ts';
import { type PeerMemory, wireguardChanges } from './wireguard-changes.ts';

/** `otherwise` is what does, where the command does not work. */
export type Change = Readonly<{ what: string; command: Command; otherwise?: Command }>;

/** `areRulesCurrent`: whether what nft lists is what the wanted ruleset was listed as when it was applied. */
export function difference(
  actual: ActualNetwork,
  wanted: NetworkState,
  settings: Pick<NetworkSettings, 'range' | 'wireguard'>,
  areRulesCurrent: boolean,
  memory: PeerMemory = { given: new Map(), lost: new Set() },
): Change[] {
  const { device } = settings.wireguard;
  const isTunnelKept = wanted.tunnel !== undefined && isSameTunnel(actual.tunnel, wanted.tunnel);
  const ours = actual.routes
    .filter(({ subnet }) => overlaps(settings.range, subnet))
    // They go with their device.
    .filter((route) => {
      if (route.device === undefined) return true;
      return route.device === device ? wanted.wireguard !== undefined : isTunnelKept;
    });
  return [
    ...bridgeChanges(actual, wanted),
    ...tunnelChanges(actual, wanted, isTunnelKept),
    ...wireguardChanges(device, actual.wireguard, wanted.wireguard, memory),
    ...sysctlChanges(actual, wanted),
    // What may pass is decided before there is a way.
    ...(areRulesCurrent ? [] : [change('the rules', nft(wanted.ruleset))]),
    ...iptablesChanges(actual.tables, wanted.iptables).map((input) =>
      change("the rules in the engine's tables", {
        program: 'iptables-restore',
        args: ['--wait', '5', '--noflush'],
        input,
      }),
    ),
    ...routeChanges(ours, wanted.routes),
  ];
}

export function nft(ruleset: string): Command {
  return { program: 'nft', args: ['-f', '-'], input: ruleset };
}

function ip(...args: readonly string[]): Command {
  return { program: 'ip', args };
}

function change(what: string, command: Command): Change {
  return { what, command };
}

/** The engine makes the bridge; what somebody took from it is given back. */
function bridgeChanges({ bridge }: ActualNetwork, { bridge: { device, subnet, gateway } }: NetworkState): Change[] {
  if (bridge === undefined) return [];
  const length = subnet.split('/')[1] ?? '';
  const route = [subnet, 'dev', device, 'proto', 'kernel', 'scope', 'link', 'src', gateway];
  return [
    ...(bridge.isUp ? [] : [change(`${device} is down`, ip('link', 'set', device, 'up'))]),
    ...(bridge.hasGateway
      ? []
      : [change(`the address of ${device}`, ip('addr', 'replace', `${gateway}/${length}`, 'dev', device))]),
    ...(bridge.hasRoute ? [] : [change(`the route to ${subnet}`, ip('route', 'replace', ...route))]),
  ];
}

function sysctlChanges(actual: ActualNetwork, { sysctls }: NetworkState): Change[] {
  return (
    Object.entries(sysctls)
      .filter(([name, value]) => actual.sysctls[name] !== value)
      // An older kernel has not got it.
      .filter(([name]) => name !== migrateSysctl || (actual.sysctls[name] ?? '') !== '')
      // Whoever gives up sooner still has their reasons.
      .filter(([name, value]) => name !== retriesSysctl || !(Number(actual.sysctls[name]) < Number(value)))
      .map(([name, value]) => {
        const path = `/proc/sys/${name.replaceAll('.', '/')}`;
        return change(name, { program: 'sh', args: ['-c', 'echo "$1" > "$2"', 'sh', value, path] });
      })
  );
}

function tunnelChanges(actual: ActualNetwork, { tunnel, peers }: NetworkState, isKept: boolean): Change[] {
  const known = actual.tunnel;
  if (tunnel === undefined) {
    return known === undefined ? [] : [change('a tunnel nobody needs', ip('link', 'del', known.device))];
  }
  const made = isKept
    ? []
    : [
        ...(known === undefined ? [] : [change('the tunnel', ip('link', 'del', known.device))]),
        change('the tunnel', ip(...tunnelArguments(tunnel))),
        change('the tunnel', ip('link', 'set', tunnel.device, 'up')),
      ];
  // A new device knows nobody.
  const neighbours = isKept ? actual.neighbours : [];
  const forwarding = isKept ? actual.forwarding : [];
  return [...made, ...peerChanges(tunnel.device, peers, neighbours, forwarding)];
}

function tunnelArguments({ device, id, port, local, mac, mtu }: Tunnel): string[] {
  const link = ['link', 'add', device, 'address', mac, 'mtu', String(mtu)];
  return [...link, 'type', 'vxlan', 'id', String(id), 'local', local, 'dstport', String(port), 'nolearning'];
}

function isSameTunnel(a: Tunnel | undefined, b: Tunnel): boolean {
  if (a === undefined) return false;
  return a.id === b.id && a.port === b.port && a.local === b.local && a.mac === b.mac && a.mtu === b.mtu;
}

function peerChanges(
  device: string,
  peers: readonly Peer[],
  neighbours: ActualNetwork['neighbours'],
  forwarding: ActualNetwork['forwarding'],
): Change[] {
  const missing = peers.flatMap(({ gateway, mac, address }) => [
    ...(forwarding.some((one) => one.mac === mac && one.address === address)
      ? []
      : [change(`the tunnel's way to ${address}`, fdb('replace', mac, device, 'dst', address))]),
    ...(neighbours.some((one) => one.gateway === gateway && one.mac === mac)
      ? []
      : [change(`the tunnel's way to ${address}`, neighbour('replace', gateway, device, mac))]),
  ]);
  const gone = [
    ...neighbours
      .filter(({ gateway }) => !peers.some((peer) => peer.gateway === gateway))
      .map(({ gateway }) => change(`${gateway} in the tunnel`, ip('neigh', 'del', gateway, 'dev', device))),
    ...forwarding
      .filter(({ mac }) => !peers.some((peer) => peer.mac === mac))
      .map(({ mac, address }) => change(`${address} in the tunnel`, fdb('del', mac, device, 'dst', address))),
  ];
  return [...missing, ...gone];
}

function fdb(verb: string, mac: string, device: string, ...rest: readonly string[]): Command {
  return { program: 'bridge', args: ['fdb', verb, mac, 'dev', device, ...rest] };
}

function neighbour(verb: string, gateway: string, device: string, mac: string): Command {
  return ip('neigh', verb, gateway, 'lladdr', mac, 'dev', device, 'nud', 'permanent');
}

/** Ours are those of our protocol inside the range. Those of others stay, even where they are in the way. */
function routeChanges(ours: readonly Route[], wanted: readonly Route[]): Change[] {
  const gone = ours
    .filter(({ subnet }) => !wanted.some((route) => route.subnet === subnet))
    .map(({ subnet }) => change(`the route to ${subnet}`, ip('route', 'del', subnet, 'proto', String(routeProtocol))));
  const missing = wanted.flatMap((route) => {
    const known = ours.find(({ subnet }) => subnet === route.subnet);
    if (known !== undefined && isSameRoute(known, route)) return [];
    const verb = known === undefined ? 'add' : 'replace';
    return [change(`the route to ${route.subnet}`, ip('route', verb, ...routeArguments(route)))];
  });
  return [...gone, ...missing];
}

function routeArguments({ subnet, via, device, source }: Route): string[] {
  const gateway = via === undefined ? [] : ['via', via];
  const through = device === undefined ? [] : ['dev', device, ...(via === undefined ? [] : ['onlink'])];
  return [subnet, ...gateway, ...through, 'src', source, 'proto', String(routeProtocol)];
}

function isSameRoute(a: Route, b: Route): boolean {
  return a.via === b.via && a.device === b.device && a.source === b.source;
}
