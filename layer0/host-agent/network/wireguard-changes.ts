/** Which commands make the WireGuard device what it should be? */
import { isDeepStrictEqual } from 'node:util';
import type { Change } from './difference.ts';
import type { Command } from './program.ts';
import type { ActualPeer, ActualWireguard } from './wireguard-show.ts';
import type { Wireguard, WireguardPeer } from './wireguard.ts';

export type PeerMemory = Readonly<{
  /** By key, the endpoints that were set: WireGuard moves on to where a peer's packets come from, and is not called back. */
  given: ReadonlyMap<string, string>;
  /**
   * Keys of peers that are not heard any more. One that was started anew knows neither the session nor where this host is, and
   * would wait for two minutes: made anew here too, it is asked for a session at once.
   */
  lost: ReadonlySet<string>;
}>;

export function wireguardChanges(
  device: string,
  actual: ActualWireguard | undefined,
  wanted: Wireguard | undefined,
  memory: PeerMemory,
): Change[] {
  if (wanted === undefined) {
    return actual === undefined
      ? []
      : [{ what: 'a WireGuard device nobody needs', command: ip('link', 'del', device) }];
  }
  const { port, key, keyFile, mtu } = wanted;
  const changes: Change[] = [];
  const add = (command: Command, otherwise?: Command): void =>
    void changes.push({ what: 'the WireGuard device', command, ...(otherwise === undefined ? {} : { otherwise }) });
  if (actual === undefined) add(ip('link', 'add', device, 'type', 'wireguard'), inUserspace(device));
  if (actual?.key !== key || actual.port !== port) {
    add(wg('set', device, 'private-key', keyFile, 'listen-port', String(port)));
  }
  if (actual?.mtu !== mtu) add(ip('link', 'set', device, 'mtu', String(mtu)));
  if (actual?.isUp !== true) add(ip('link', 'set', device, 'up'));
  const peers = peerArguments(actual?.peers ?? [], wanted.peers, memory);
  if (peers.length > 0) changes.push({ what: "WireGuard's peers", command: wg('set', device, ...peers) });
  return changes;
}

function peerArguments(
  actual: readonly ActualPeer[],
  wanted: readonly WireguardPeer[],
  { given, lost }: PeerMemory,
): string[] {
  const isGone = ({ key }: ActualPeer): boolean => {
    const peer = wanted.find((one) => one.key === key);
    return peer === undefined || (lost.has(key) && peer.endpoint !== undefined);
  };
  const gone = actual.filter(isGone);
  return [
    ...gone.flatMap(({ key }) => ['peer', key, 'remove']),
    ...wanted.flatMap((peer) => {
      const known = actual.find((one) => one.key === peer.key && !gone.includes(one));
      const endpoint = hasToBeGiven(known, peer, given) ? ['endpoint', peer.endpoint ?? ''] : [];
      const isSame =
        known?.keepaliveSeconds === peer.keepaliveSeconds && isDeepStrictEqual(known.subnets, peer.subnets);
      if (isSame && endpoint.length === 0) return [];
      const keepalive = ['persistent-keepalive', String(peer.keepaliveSeconds)];
      // A subnet goes from the peer that had it to the one that gets it.
      return ['peer', peer.key, ...endpoint, ...keepalive, 'allowed-ips', peer.subnets.join(',')];
    }),
  ];
}

function hasToBeGiven(
  known: ActualPeer | undefined,
  { key, endpoint }: WireguardPeer,
  given: PeerMemory['given'],
): boolean {
  if (endpoint === undefined || known?.endpoint === endpoint) return false;
  return known?.endpoint === undefined || given.get(key) !== endpoint;
}

/** The shell that stays has files of its own open at 3 and 4. A session of its own, so that it outlives the agent. */
function inUserspace(device: string): Command {
  const script = `
command -v wireguard-go >/dev/null || {
  echo 'this kernel has no WireGuard, and wireguard-go, which can stand in for it, is not on this machine: install the package wireguard-go' >&2
  exit 1
}
cd / && LOG_LEVEL=silent setsid -w wireguard-go "$1" 3>&- 4>&- >/dev/null 2>&1 || {
  echo "wireguard-go could not make the device $1: it needs /dev/net/tun (modprobe tun)" >&2
  exit 1
}`;
  return { program: 'sh', args: ['-c', script, 'sh', device] };
}

function ip(...args: readonly string[]): Command {
  return { program: 'ip', args };
}

function wg(...args: readonly string[]): Command {
  return { program: 'wg', args };
}
