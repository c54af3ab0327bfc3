import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ActualNetwork } from './actual.ts';
import { difference } from './difference.ts';
import type { Encryption } from './encryption.ts';
import type { Lease } from './lease.ts';
import { testSettings } from './settings-fixture.ts';
import { type Machine, type NetworkSettings, type NetworkState, containerMtu, wanted } from './state.ts';

const settings = testSettings;
const machine: Machine = {
  interfaces: [
    { name: 'eth0', mtu: 1400, subnets: ['192.0.2.2/26'] },
    { name: 'flynn0', mtu: 1500, subnets: ['100.100.1.1/24'] },
    // A host behind a point-to-point link is nobody's neighbour.
    { name: 'ppp0', mtu: 1500, subnets: ['192.0.2.200/32'] },
  ],
  bridgeMac: '02:00:00:00:00:01',
  canMatchBridge: true,
};
const lease = (hostId: string, address: string, subnet: string, joinedAt = 1): Lease => ({
  hostId,
  address,
  subnet,
  joinedAt,
});
const self = lease('one', '192.0.2.2', '100.100.1.0/24');
const near = lease('two', '192.0.2.3', '100.100.2.0/24');
const far = lease('three', '198.51.100.7', '100.100.3.0/24', 2);

function stateOf(
  leases: readonly Lease[],
  more: Partial<NetworkSettings> = {},
  encryption: Encryption = 'off',
): NetworkState {
  return wanted({ settings: { ...settings, ...more }, machine, leases, jobs: [], endpoints: [], encryption });
}

/** A machine on which everything is as it should be. */
function settled(state: NetworkState): ActualNetwork {
  const tables = new Map<string, Map<string, string[]>>([
    ['filter', new Map([['DOCKER-USER', []]])],
    ['nat', new Map()],
    ['raw', new Map()],
  ]);
  for (const [table, rules] of Object.entries(state.iptables.tables)) {
    tables.get(table)?.set(state.iptables.chain, [...rules]);
  }
  for (const { table, chain, rule } of state.iptables.hooks) {
    const chains = tables.get(table);
    chains?.set(chain, [...(chains.get(chain) ?? []), rule]);
  }
  return {
    interfaces: machine.interfaces,
    bridge: { mac: machine.bridgeMac ?? '', isUp: true, hasGateway: true, hasRoute: true },
    routes: state.routes,
    tunnel: state.tunnel,
    neighbours: state.peers.map(({ gateway, mac }) => ({ gateway, mac })),
    forwarding: state.peers.map(({ mac, address }) => ({ mac, address })),
    wireguard: undefined,
    rules: 'listed',
    tables,
    sysctls: state.sysctls,
  };
}

function commands(actual: ActualNetwork, state: NetworkState, areRulesCurrent = true): string[] {
  return difference(actual, state, settings, areRulesCurrent).map(({ command }) =>
    [command.program, ...command.args].join(' '),
  );
}

test('a neighbour is routed to, a host elsewhere tunnelled to, the host itself is nothing to be done about', () => {
  const state = stateOf([self, near, far]);
  assert.deepEqual(state.routes, [
    { subnet: '100.100.2.0/24', via: '192.0.2.3', source: '100.100.1.1' },
    { subnet: '100.100.3.0/24', via: '100.100.3.1', device: 'flynnvx7117', source: '100.100.1.1' },
  ]);
  assert.deepEqual(state.peers, [{ gateway: '100.100.3.1', mac: '0a:f1:c6:33:64:07', address: '198.51.100.7' }]);
  assert.equal(state.tunnel?.mtu, 1350);
});

test('the backend may be settled by the operator', () => {
  assert.equal(stateOf([near, far], { backend: 'direct' }).tunnel, undefined);
  assert.equal(stateOf([near], { backend: 'vxlan' }).routes[0]?.device, 'flynnvx7117');
  assert.equal(containerMtu({ ...settings, backend: 'direct' }, machine.interfaces), 1400);
  assert.equal(containerMtu(settings, machine.interfaces), 1320);
  assert.equal(containerMtu({ ...settings, address: '203.0.113.1' }, machine.interfaces), 1420);
});

test("of overlapping leases the oldest counts, and the host's own subnet always", () => {
  const greedy = lease('greedy', '192.0.2.9', '100.100.0.0/16', 9);
  const double = lease('double', '192.0.2.8', '100.100.2.0/25', 5);
  assert.deepEqual(stateOf([greedy, double, near]), stateOf([near]));
  assert.deepEqual(stateOf([near, far]), stateOf([far, near]));
});

test('where everything is right there is nothing to do', () => {
  for (const leases of [[], [near], [far], [self, near, far]]) {
    const state = stateOf(leases);
    assert.deepEqual(commands(settled(state), state), []);
  }
});

test('a new host gets its tunnel before its route, and policy comes before both', () => {
  const before = settled(stateOf([near]));
  const after = stateOf([near, far]);
  assert.deepEqual(commands(before, after, false), [
    'ip link add flynnvx7117 address 0a:f1:c0:00:02:02 mtu 1350 type vxlan id 7117 local 192.0.2.2 dstport 1115 nolearning',
    'ip link set flynnvx7117 up',
    'bridge fdb replace 0a:f1:c6:33:64:07 dev flynnvx7117 dst 198.51.100.7',
    'ip neigh replace 100.100.3.1 lladdr 0a:f1:c6:33:64:07 dev flynnvx7117 nud permanent',
    'sh -c echo "$1" > "$2" sh 2 /proc/sys/net/ipv4/conf/flynnvx7117/rp_filter',
    'nft -f -',
    'ip route add 100.100.3.0/24 via 100.100.3.1 dev flynnvx7117 onlink src 100.100.1.1 proto 117',
  ]);
});

test('a host that left leaves nothing; the last one behind the tunnel takes the tunnel along', () => {
  const both = settled(stateOf([near, far]));
  assert.deepEqual(commands(both, stateOf([far])), ['ip route del 100.100.2.0/24 proto 117']);
  assert.deepEqual(commands(both, stateOf([near])), ['ip link del flynnvx7117']);
  const farther = lease('four', '198.51.100.8', '100.100.4.0/24', 3);
  assert.deepEqual(commands(settled(stateOf([far, farther])), stateOf([farther])), [
    'ip neigh del 100.100.3.1 dev flynnvx7117',
    'bridge fdb del 0a:f1:c6:33:64:07 dev flynnvx7117 dst 198.51.100.7',
    'ip route del 100.100.3.0/24 proto 117',
  ]);
});

test('a tunnel with other properties is made anew, with all that went with it', () => {
  const state = stateOf([far]);
  const actual = settled(state);
  assert.ok(actual.tunnel !== undefined);
  const done = commands({ ...actual, tunnel: { ...actual.tunnel, mtu: 1450 } }, state);
  assert.deepEqual(
    done.map((command) => command.split(' ').slice(0, 3).join(' ')),
    ['ip link del', 'ip link add', 'ip link set', 'bridge fdb replace', 'ip neigh replace', 'ip route add'],
  );
});

test('routes of others stay: ours are of our protocol inside the range', () => {
  const state = stateOf([]);
  const actual = { ...settled(state), routes: [{ subnet: '10.9.0.0/16', via: '192.0.2.3', source: '' }] };
  assert.deepEqual(commands(actual, state), []);
});

const bridge = { mac: '02:00:00:00:00:01', isUp: true, hasGateway: true, hasRoute: true };
const drifts: [string, (actual: ActualNetwork) => ActualNetwork, string[]][] = [
  ['the bridge down', (a) => ({ ...a, bridge: { ...bridge, isUp: false } }), ['ip link set flynn0 up']],
  [
    'its address gone',
    (a) => ({ ...a, bridge: { ...bridge, hasGateway: false } }),
    ['ip addr replace 100.100.1.1/24 dev flynn0'],
  ],
  [
    'its route gone',
    (a) => ({ ...a, bridge: { ...bridge, hasRoute: false } }),
    ['ip route replace 100.100.1.0/24 dev flynn0 proto kernel scope link src 100.100.1.1'],
  ],
  [
    'forwarding off',
    (a) => ({ ...a, sysctls: { ...a.sysctls, 'net.ipv4.ip_forward': '0' } }),
    ['sh -c echo "$1" > "$2" sh 1 /proc/sys/net/ipv4/ip_forward'],
  ],
  [
    'queues of closed ports lost',
    (a) => ({ ...a, sysctls: { ...a.sysctls, 'net.ipv4.tcp_migrate_req': '0' } }),
    ['sh -c echo "$1" > "$2" sh 1 /proc/sys/net/ipv4/tcp_migrate_req'],
  ],
  [
    'patience of a quarter of an hour',
    (a) => ({ ...a, sysctls: { ...a.sysctls, 'net.ipv4.tcp_retries2': '15' } }),
    ['sh -c echo "$1" > "$2" sh 5 /proc/sys/net/ipv4/tcp_retries2'],
  ],
  ['less patience than that', (a) => ({ ...a, sysctls: { ...a.sysctls, 'net.ipv4.tcp_retries2': '3' } }), []],
  ['a kernel that always loses them', (a) => ({ ...a, sysctls: { ...a.sysctls, 'net.ipv4.tcp_migrate_req': '' } }), []],
  [
    'a route elsewhere',
    (a) => ({ ...a, routes: [{ subnet: '100.100.2.0/24', via: '192.0.2.9', source: '100.100.1.1' }] }),
    ['ip route replace 100.100.2.0/24 via 192.0.2.3 src 100.100.1.1 proto 117'],
  ],
  ['no bridge at all', (a) => ({ ...a, bridge: undefined }), []],
];
for (const [what, change, expected] of drifts) {
  test(`${what}: ${expected.join('; ') || 'nothing to be done here'}`, () => {
    const state = stateOf([near]);
    assert.deepEqual(commands(change(settled(state)), state), expected);
  });
}

const keyed = (one: Lease, more: Partial<Lease> = {}): Lease => ({ ...one, tunnelKey: `key-${one.hostId}`, ...more });
const home = keyed(lease('home', '100.100.4.1', '100.100.4.0/24', 4), { site: 'home', localAddress: '192.0.2.130' });
const office = keyed(lease('office', '100.100.5.1', '100.100.5.0/24', 5), { site: 'office' });
test('a job that may begin no connections is refused them everywhere, and keeps those that it has', () => {
  const input = { settings, machine, leases: [self], jobs: [], endpoints: [], encryption: 'off' as const };
  const rules = rulesOf(wanted({ ...input, held: ['100.100.1.3', '100.100.1.2', '100.100.1.3'] }));
  const refused = 'ct state established,related accept ip saddr { 100.100.1.2, 100.100.1.3 } goto refuse';
  for (const chain of ['from_jobs', 'to_host']) {
    const [, text = ''] = new RegExp(`chain ${chain} {([^]*?accept [^]*?)chain`).exec(rules) ?? [];
    assert.ok(text.includes(refused), `${chain}: ${text}`);
  }
  assert.equal(wanted(input).ruleset, wanted({ ...input, held: [] }).ruleset);
});

const rulesOf = (state: NetworkState): string => state.ruleset.replaceAll(/\s+/g, ' ');

test('a cluster that is all public and in clear has nothing of WireGuard, whether or not hosts have keys', () => {
  const state = stateOf([keyed(near), keyed(far)]);
  const withoutKeys = stateOf([near, far]);
  assert.deepEqual({ ...state, ruleset: '', links: [] }, { ...withoutKeys, ruleset: '', links: [] });
  assert.equal(state.wireguard, undefined);
  assert.doesNotMatch(JSON.stringify(state), /flwg|encrypted|relayed/);
});

test('hosts behind NAT are routed to through WireGuard, which a public host passes on between them and nothing else', () => {
  const state = stateOf([keyed(near), home, office]);
  assert.deepEqual(state.routes.slice(1), [
    { subnet: '100.100.4.0/24', source: '100.100.1.1', device: 'flwg7117-1' },
    { subnet: '100.100.5.0/24', source: '100.100.1.1', device: 'flwg7117-1' },
  ]);
  assert.equal(state.wireguard?.mtu, 1320);
  assert.match(
    rulesOf(state),
    /set relayed \{ type ipv4_addr flags interval elements = \{ 100\.100\.4\.0\/24, 100\.100\.5\.0\/24 \} \}/,
  );
  // What is of a subnet already is not in a set of intervals twice.
  assert.match(
    rulesOf(state),
    /set peers \{[^}]* \{ 192\.0\.2\.3, 100\.100\.2\.0\/24, 100\.100\.4\.0\/24, 100\.100\.5\.0\/24 \}/,
  );
  const passed = '-s 100.100.0.0/16 -d 100.100.0.0/16 -i flwg7117-1 -o flwg7117-1 -j ACCEPT';
  assert.ok(state.iptables.tables['filter']?.includes(passed));
  assert.equal(state.sysctls['net.ipv4.conf.flwg7117-1.rp_filter'], '2');
});

test('a host behind NAT passes nothing on, and keeps the platform’s ports of its site closed by their addresses there', () => {
  const own = { address: '100.100.1.1', site: 'home', localAddress: '192.0.2.129' };
  const lan = { name: 'eth1', mtu: 1500, subnets: ['192.0.2.129/28'] };
  const state = wanted({
    settings: { ...settings, ...own },
    machine: { ...machine, interfaces: [...machine.interfaces, lan] },
    leases: [keyed(near), home, office],
    jobs: [],
    endpoints: [],
    encryption: 'off',
  });
  assert.deepEqual(state.routes, [
    { subnet: '100.100.2.0/24', source: '100.100.1.1', device: 'flwg7117-1' },
    { subnet: '100.100.4.0/24', via: '192.0.2.130', source: '100.100.1.1' },
    { subnet: '100.100.5.0/24', source: '100.100.1.1', device: 'flwg7117-1' },
  ]);
  assert.match(rulesOf(state), /set relayed \{ type ipv4_addr flags interval \}/);
  assert.match(rulesOf(state), /set hosts \{[^}]*192\.0\.2\.129, 192\.0\.2\.130 \}/);
  assert.doesNotMatch(JSON.stringify(state.iptables.tables), /flwg/);
  // A firewall of the machine keeps nobody from its agent who came through the tunnel; jobs are kept from all else there.
  assert.ok(
    state.iptables.hooks.some(({ chain, rule }) => chain === 'INPUT' && rule.startsWith('-i flwg7117-1 -p tcp')),
  );
  assert.match(rulesOf(state), /iifname "flwg7117-1" ip saddr != @hosts [^;]*th dport != \{[^}]*\} drop/);
  assert.doesNotMatch(rulesOf(stateOf([keyed(near), home])), /ip saddr != @hosts/);
});

test('where all is to be encrypted a host without a key is named, and what is for it goes nowhere', () => {
  const state = stateOf([keyed(near), far], { backend: 'wireguard' });
  assert.deepEqual(
    state.unreachable.map(({ hostId }) => hostId),
    ['three'],
  );
  assert.deepEqual(
    state.routes.map(({ subnet }) => subnet),
    ['100.100.2.0/24'],
  );
  assert.match(rulesOf(state), /set encrypted \{[^}]* \{ 100\.100\.2\.0\/24, 100\.100\.3\.0\/24 \}/);
  assert.match(rulesOf(state), /oifname != "flwg7117-1" ip daddr @encrypted reject/);
});

test('of two hosts with one key the older has it; nobody else has this host’s own', () => {
  const twin = keyed(far, { tunnelKey: 'key-two' });
  const thief = keyed(lease('thief', '192.0.2.9', '100.100.6.0/24', 6), { tunnelKey: 'own' });
  const state = stateOf([keyed(near), twin, thief], { backend: 'wireguard' });
  assert.deepEqual(
    state.unreachable.map(({ hostId }) => hostId),
    ['three', 'thief'],
  );
  assert.equal(state.wireguard?.peers.length, 1);
});

test('WireGuard’s device goes with the last who needs it, its routes with it', () => {
  const state = stateOf([keyed(near), home]);
  assert.ok(state.wireguard !== undefined);
  const { key, port, mtu, peers } = state.wireguard;
  const shown = peers.map(({ endpoint, keepaliveSeconds, subnets, key: of }) => ({
    key: of,
    endpoint,
    keepaliveSeconds,
    subnets,
  }));
  const actual = { ...settled(state), wireguard: { isUp: true, key, port, mtu, peers: shown } };
  assert.deepEqual(commands(actual, state), []);
  assert.deepEqual(commands(actual, stateOf([keyed(near)]), true), [
    'ip link del flwg7117-1',
    'iptables-restore --wait 5 --noflush',
  ]);
});

test('encryption begins step by step: all are heard, then all is sent so, then nothing else is taken', () => {
  const two = { ...near, tunnelKey: 'k-two' };
  const seen = (encryption: Encryption) => {
    const { wireguard, routes, ruleset } = stateOf([self, two], {}, encryption);
    const device = settings.wireguard.device;
    return {
      isHeard: wireguard?.peers.some(({ keepaliveSeconds }) => keepaliveSeconds > 0) ?? false,
      isSentSo: routes.every((route) => route.device === device),
      isTakenInClear: !ruleset.includes(
        `set encrypted {\n    type ipv4_addr\n    flags interval\n    elements = { ${two.subnet} }`,
      ),
    };
  };
  assert.deepEqual(seen('off'), { isHeard: false, isSentSo: false, isTakenInClear: true });
  assert.deepEqual(seen('ready'), { isHeard: true, isSentSo: false, isTakenInClear: true });
  assert.deepEqual(seen('sent'), { isHeard: true, isSentSo: true, isTakenInClear: true });
  assert.deepEqual(seen('on'), { isHeard: true, isSentSo: true, isTakenInClear: false });
});

test('the tunnel in clear stays until all send encrypted, so that a route is replaced by another and none is missing', () => {
  const there = { ...far, tunnelKey: 'k-three' };
  const tunnelled = (encryption: Encryption) => stateOf([self, there], {}, encryption).tunnel !== undefined;
  assert.deepEqual((['off', 'ready', 'sent', 'on'] as const).map(tunnelled), [true, true, true, false]);
  const [before, after] = [stateOf([self, there], {}, 'ready'), stateOf([self, there], {}, 'sent')];
  const ways = commands(settled(before), after).filter((line) => line.startsWith('ip '));
  assert.ok(
    ways.some((line) => line.startsWith('ip route replace 100.100.3.0/24 dev flwg7117-1')),
    ways.join('\n'),
  );
  assert.ok(!ways.some((line) => line.includes('del')), ways.join('\n'));
});

test('before it begins, a host that it would not reach has no way in what people are told, and one in fact', () => {
  const { links, routes, unreachable } = stateOf([self, near], {}, 'ready');
  assert.deepEqual(
    links.map(({ way }) => way),
    ['none'],
  );
  assert.deepEqual([routes.length, unreachable.length], [1, 0]);
});
