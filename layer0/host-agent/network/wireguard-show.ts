/** What is this host's WireGuard device now, as `wg show` tells it? Never by `dump` or `showconf`: they tell the private key. */

export type ActualWireguard = Readonly<{
  isUp: boolean;
  mtu: number;
  /** Its public key; undefined where it has none yet. */
  key: string | undefined;
  port: number;
  peers: readonly ActualPeer[];
}>;
export type ActualPeer = Readonly<{
  key: string;
  endpoint: string | undefined;
  keepaliveSeconds: number;
  subnets: readonly string[];
}>;

const told = ['public-key', 'listen-port', 'allowed-ips', 'endpoints', 'persistent-keepalive'] as const;
const separator = '\n==\n';

/** For a shell: what `parseWireguard` reads. Nothing where there is no such device; a program that hangs holds up nobody. */
export function showScript(device: string): string {
  const each = `timeout 3 wg show ${device} "$what" || break; printf '\\n==\\n'`;
  return `${whereThereIs(device)} for what in ${told.join(' ')}; do ${each}; done`;
}

/** What came from each peer so far, which changes by itself. */
export function transferScript(device: string): string {
  return `${whereThereIs(device)} timeout 3 wg show ${device} transfer`;
}

function whereThereIs(device: string): string {
  return `[ -e /proc/sys/net/ipv4/conf/${device} ] &&`;
}

export function parseWireguard(text: string, link: Pick<ActualWireguard, 'isUp' | 'mtu'>): ActualWireguard {
  const [key = '', port = '', allowed = '', endpoints = '', keepalives = ''] = text.split(separator);
  const endpointOf = new Map(linesOf(endpoints));
  const keepaliveOf = new Map(linesOf(keepalives));
  return {
    ...link,
    key: orNothing(key.trim()),
    port: Number(port.trim()),
    peers: linesOf(allowed).map(([peer, subnets]) => ({
      key: peer,
      endpoint: orNothing(endpointOf.get(peer) ?? ''),
      keepaliveSeconds: Number(keepaliveOf.get(peer)) || 0,
      subnets: subnets
        .split(' ')
        .filter((one) => one !== '(none)')
        .sort(),
    })),
  };
}

/** Bytes received, by the peer's key. */
export function parseTransfer(text: string): Map<string, number> {
  return new Map(linesOf(text).map(([key, counts]) => [key, Number(counts.split('\t')[0])]));
}

/** `key<TAB>value` */
function linesOf(text: string): [key: string, value: string][] {
  return text.split('\n').flatMap((line) => {
    const [key = '', ...rest] = line.split('\t');
    return key === '' || rest.length === 0 ? [] : [[key, rest.join('\t')]];
  });
}

function orNothing(text: string): string | undefined {
  return text === '' || text === '(none)' ? undefined : text;
}
