import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Encryption } from './encryption.ts';
import type { Lease } from './lease.ts';
import { linksOf } from './links.ts';
import { testSettings } from './settings-fixture.ts';
import type { NetworkSettings } from './state.ts';
import { wireguardChanges } from './wireguard-changes.ts';
import { type ActualWireguard, parseTransfer, parseWireguard } from './wireguard-show.ts';
import { type Wireguard, needsWireguard, wireguardDevice, wireguardPeers } from './wireguard.ts';

const settings: NetworkSettings = { ...testSettings, hostId: 'self' };
const behind: NetworkSettings = { ...settings, address: '100.100.1.1', site: 'home', localAddress: '192.0.2.129' };
const host = (hostId: string, index: number, more: Partial<Lease> = {}): Lease => ({
  hostId,
  address: `192.0.2.${index}`,
  subnet: `100.100.${index}.0/24`,
  joinedAt: index,
  tunnelKey: `k-${hostId}`,
  ...more,
});
const mate = host('mate', 4, { site: 'home', localAddress: '192.0.2.130' });
const elsewhere = host('elsewhere', 5, { site: 'office' });

function peersOf(own: NetworkSettings, others: readonly Lease[], encryption: Encryption = 'off') {
  return wireguardPeers(own, linksOf({ self: own, others, isNeighbour: () => true, unheard: [] }), encryption);
}

test('the device is there for who needs it alone, and its name tells several hosts of one machine apart', () => {
  assert.equal(needsWireguard(settings, [host('two', 2)], 'off'), false);
  assert.equal(needsWireguard({ ...settings, backend: 'wireguard' }, [host('two', 2)], 'off'), true);
  assert.equal(needsWireguard(settings, [host('two', 2), mate], 'off'), true);
  assert.equal(needsWireguard(behind, [mate], 'off'), true);
  assert.equal(needsWireguard({ ...behind, backend: 'wireguard' }, [], 'off'), false);
  assert.equal(wireguardDevice(7117, '100.100.12.0/24'), 'flwg7117-12');
  assert.ok(wireguardDevice(9_999_999, '100.100.255.0/24').length <= 15);
});

test('before all is encrypted everybody has the device, and hears whom it will send to', () => {
  assert.equal(needsWireguard(settings, [host('two', 2)], 'ready'), true);
  assert.equal(needsWireguard(settings, [], 'on'), false);
  const [two] = peersOf(settings, [host('two', 2)], 'ready');
  assert.equal(two?.keepaliveSeconds, 20);
});

test('a public host waits for those behind NAT to speak, and knows the others by their addresses', () => {
  const [two, four] = peersOf(settings, [host('two', 2), mate, host('old', 6, { tunnelKey: undefined })]);
  assert.deepEqual(two, {
    hostId: 'two',
    key: 'k-two',
    endpoint: '192.0.2.2:1117',
    // There is another way to it; but should it send this way already, it is heard.
    keepaliveSeconds: 0,
    subnets: ['100.100.2.0/24'],
  });
  assert.deepEqual(four, { hostId: 'mate', key: 'k-mate', keepaliveSeconds: 20, subnets: ['100.100.4.0/24'] });
});

test('of a host behind NAT, one relay has what is for a host in another private network', () => {
  const peers = peersOf(behind, [host('two', 2), host('three', 3), mate, elsewhere]);
  assert.deepEqual(
    peers.map(({ hostId, endpoint }) => [hostId, endpoint]),
    [
      ['two', '192.0.2.2:1117'],
      ['three', '192.0.2.3:1117'],
      ['mate', '192.0.2.130:1117'],
    ],
  );
  const carrying = peers.filter(({ subnets }) => subnets.includes('100.100.5.0/24'));
  assert.equal(carrying.length, 1);
  assert.deepEqual(carrying[0]?.subnets, [
    carrying[0]?.hostId === 'two' ? '100.100.2.0/24' : '100.100.3.0/24',
    '100.100.5.0/24',
  ]);
});

const wanted: Wireguard = {
  ...settings.wireguard,
  mtu: 1420,
  peers: [
    { hostId: 'two', key: 'k2', endpoint: '192.0.2.3:1117', keepaliveSeconds: 20, subnets: ['100.100.2.0/24'] },
    { hostId: 'four', key: 'k4', keepaliveSeconds: 20, subnets: ['100.100.4.0/24', '100.100.5.0/24'] },
  ],
};
const right: ActualWireguard = {
  isUp: true,
  mtu: 1420,
  key: 'own',
  port: 1117,
  peers: wanted.peers.map(({ key, endpoint, keepaliveSeconds, subnets }) => ({
    key,
    endpoint,
    keepaliveSeconds,
    subnets,
  })),
};
const given = new Map([['k2', '192.0.2.3:1117']]);
const device = 'flwg7117-1';

const memory = { given, lost: new Set<string>() };

function commands(actual: ActualWireguard | undefined, state = wanted, lost: string[] = []): string[] {
  return wireguardChanges(device, actual, state, { given, lost: new Set(lost) }).map(({ command }) =>
    [command.program, ...command.args].join(' '),
  );
}
const changed = (key: string, change: object): ActualWireguard => ({
  ...right,
  peers: right.peers.map((peer) => (peer.key === key ? { ...peer, ...change } : peer)),
});

test('what is right is left alone; a new device is made, by a program where the kernel has none', () => {
  assert.deepEqual(commands(right), []);
  assert.deepEqual(commands(undefined), [
    `ip link add ${device} type wireguard`,
    `wg set ${device} private-key /key listen-port 1117`,
    `ip link set ${device} mtu 1420`,
    `ip link set ${device} up`,
    `wg set ${device} peer k2 endpoint 192.0.2.3:1117 persistent-keepalive 20 allowed-ips 100.100.2.0/24 peer k4 persistent-keepalive 20 allowed-ips 100.100.4.0/24,100.100.5.0/24`,
  ]);
  const [first] = wireguardChanges(device, undefined, wanted, memory);
  assert.match(first?.otherwise?.args.join(' ') ?? '', /wireguard-go "\$1".* sh flwg7117-1$/s);
  assert.deepEqual(
    wireguardChanges(device, right, undefined, memory).map(({ command }) => command.args),
    [['link', 'del', device]],
  );
});

const drifts: [string, ActualWireguard, string[]][] = [
  ['another key', { ...right, key: 'k9' }, [`wg set ${device} private-key /key listen-port 1117`]],
  ['another port', { ...right, port: 40_000 }, [`wg set ${device} private-key /key listen-port 1117`]],
  ['down', { ...right, isUp: false }, [`ip link set ${device} up`]],
  [
    'a stranger',
    { ...right, peers: [...right.peers, { key: 'x', endpoint: undefined, keepaliveSeconds: 0, subnets: [] }] },
    [`wg set ${device} peer x remove`],
  ],
  [
    'a subnet gone',
    changed('k4', { subnets: ['100.100.4.0/24'] }),
    [`wg set ${device} peer k4 persistent-keepalive 20 allowed-ips 100.100.4.0/24,100.100.5.0/24`],
  ],
  [
    'no words sent',
    changed('k2', { keepaliveSeconds: 0 }),
    [`wg set ${device} peer k2 persistent-keepalive 20 allowed-ips 100.100.2.0/24`],
  ],
  ['a host behind NAT was heard', changed('k4', { endpoint: '192.0.2.40:4711' }), []],
  ['another was heard elsewhere', changed('k2', { endpoint: '192.0.2.9:4711' }), []],
  [
    'its endpoint was lost',
    changed('k2', { endpoint: undefined }),
    [`wg set ${device} peer k2 endpoint 192.0.2.3:1117 persistent-keepalive 20 allowed-ips 100.100.2.0/24`],
  ],
];
for (const [what, actual, expected] of drifts) {
  test(`${what}: ${expected.join() || 'nothing to be done'}`, () => assert.deepEqual(commands(actual), expected));
}

test('where a host is now by its lease is told, whatever was heard', () => {
  const [two, four] = wanted.peers;
  assert.ok(two !== undefined && four !== undefined);
  assert.deepEqual(commands(right, { ...wanted, peers: [{ ...two, endpoint: '192.0.2.7:1117' }, four] }), [
    `wg set ${device} peer k2 endpoint 192.0.2.7:1117 persistent-keepalive 20 allowed-ips 100.100.2.0/24`,
  ]);
});

test('a peer that is not heard any more is made anew where it is known to be; one behind NAT has to speak first', () => {
  assert.deepEqual(commands(changed('k2', { endpoint: '192.0.2.9:4711' }), wanted, ['k2', 'k4']), [
    `wg set ${device} peer k2 remove peer k2 endpoint 192.0.2.3:1117 persistent-keepalive 20 allowed-ips 100.100.2.0/24`,
  ]);
});

test('what `wg show` says is understood', () => {
  const link = { isUp: true, mtu: 1420 };
  const shown = [
    'own=\n',
    '1117\n',
    'k2=\t100.100.5.0/24 100.100.2.0/24\nk4=\t(none)\n',
    'k2=\t192.0.2.3:1117\nk4=\t(none)\n',
    'k2=\t20\nk4=\toff\n',
    '',
  ];
  assert.deepEqual(parseWireguard(shown.join('\n==\n'), link), {
    ...link,
    key: 'own=',
    port: 1117,
    peers: [
      { key: 'k2=', endpoint: '192.0.2.3:1117', keepaliveSeconds: 20, subnets: ['100.100.2.0/24', '100.100.5.0/24'] },
      { key: 'k4=', endpoint: undefined, keepaliveSeconds: 0, subnets: [] },
    ],
  });
  assert.deepEqual(parseWireguard('', link), { ...link, key: undefined, port: 0, peers: [] });
  assert.deepEqual(
    parseTransfer('k2=\t148\t92\nk4=\t0\t0\n'),
    new Map([
      ['k2=', 148],
      ['k4=', 0],
    ]),
  );
});
