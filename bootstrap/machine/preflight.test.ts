import assert from 'node:assert/strict';
import { test } from 'node:test';
import { platformPorts } from '@flynn/controller/routes/ports';
import { overlaps } from '@flynn/host-agent/network/addresses';
import { parseListeners } from './listeners.ts';
import { type Network, tailscale } from './networks.ts';
import { type Facts, gatewayPorts, judge } from './preflight.ts';
import { rangeWarnings } from './range-use.ts';
import { readOptions, settle } from '../settings.ts';

const cluster = settle(readOptions({}), undefined, {
  hostname: 'host',
  address: '192.0.2.7',
  now: new Date(0),
  newSecret: () => 'secret',
  authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
});

const good: Facts = {
  platform: 'linux',
  isRoot: true,
  stateDir: '/var/lib/flynn',
  memoryBytes: 4e9,
  disks: [{ path: '/var/lib/flynn', freeBytes: 50e9 }],
  strangers: [],
  engine: 'running',
  engineModes: [],
  enginePools: [],
  missingPrograms: [],
  listeners: [],
  networks: [{ device: 'eth0', subnet: '192.0.2.0/24' }],
  nameServers: ['192.0.2.53', '127.0.0.53'],
  address: { address: '192.0.2.7', isOwn: true, others: ['192.0.2.7'] },
  knownAddresses: [],
  isHost: false,
  isClusterUp: false,
  isNameGiven: false,
  unclaimed: { containers: 0, volumes: 0 },
  nft: { version: 'v1.0.6' },
  ip: { version: 'iproute2-6.1.0' },
  clock: { now: Date.parse('2026-11-21T12:00:00Z'), notBefore: Date.parse('2026-11-20T12:00:00Z') },
};
const listener = (port: number, address = '*', protocol: 'tcp' | 'udp' = 'tcp') => ({
  protocol,
  address,
  port,
  inode: '1',
  owner: 'nginx (pid 812)',
});
const whats = (facts: Partial<Facts>): string[] => judge({ ...good, ...facts }, cluster).map(({ what }) => what);

test('an engine of a snap makes no host, and a host that it made all the same goes on', () => {
  assert.match(whats({ engineModes: ['snap'] }).join(), /that of a snap/);
  assert.deepEqual(whats({ engineModes: ['snap'], isHost: true }), []);
});

test('a suitable machine has no problems', () => {
  assert.deepEqual(judge(good, cluster), []);
});

test('a machine that is to be behind NAT and can have no tunnel is told what it lacks', () => {
  const [problem] = judge({ ...good, wireguard: 'wg is not installed' }, { ...cluster, site: 'home' });
  assert.match(problem?.what ?? '', /WireGuard, and wg is not installed/);
  assert.match(problem?.remedy ?? '', /apt-get install wireguard-tools/);
});

test('every problem is told at once, each with its remedy', () => {
  const problems = judge(
    {
      ...good,
      isRoot: false,
      memoryBytes: 1e9,
      disks: [{ path: '/var/lib/flynn', freeBytes: 1e9 }],
      engine: 'missing',
      missingPrograms: ['git'],
      listeners: [listener(80), listener(2379)],
      networks: [{ device: 'wg0', subnet: '100.64.0.0/10' }],
    },
    cluster,
  );
  assert.equal(problems.length, 8);
  for (const { what, remedy } of problems) assert.ok(what.length > 0 && remedy.length > 0);
});

test('an address that the machine has no more is told, with those it has, and how the host moves there', () => {
  const address = { address: '192.0.2.7', isOwn: false, others: ['192.0.2.9', '198.51.100.4'] };
  // Also while its agent runs, which waits for a store that nobody reaches any more.
  const [problem, more] = judge({ ...good, address, isHost: true, isClusterUp: true }, cluster);
  assert.equal(more, undefined);
  assert.match(
    problem?.what ?? '',
    /^192\.0\.2\.7, .*not an address of this machine: it has 192\.0\.2\.9, 198\.51\.100\.4$/,
  );
  assert.match(problem?.remedy ?? '', /FLYNN_ADDRESS=192\.0\.2\.9 npm run up/);
  assert.match(judge({ ...good, address }, cluster, 'joining')[0]?.remedy ?? '', /^FLYNN_ADDRESS=192\.0\.2\.9$/);
  assert.equal(judge({ ...good, address }, cluster, 'machine').length, 0);
});

test('an address that no other machine reaches is none for a host, but where one has it already', () => {
  const judged = (address: string, others: string[], change: Partial<Facts> = {}) =>
    judge({ ...good, address: { address, isOwn: true, others }, ...change }, { ...cluster, address }).map(
      ({ what, remedy }) => `${what}; ${remedy}`,
    );
  // Of IPv6 alone, or before the network is there: nothing else was found.
  const [none, more] = judged('127.0.0.1', []);
  assert.equal(more, undefined);
  assert.match(none ?? '', /^127\.0\.0\.1, .* loopback.*no IPv4 address that leads out; give .*IPv6 alone is not/);
  const doubtful = [
    { device: 'wg0', address: '10.8.0.2' },
    { device: 'br-lan', address: '192.0.2.9' },
  ];
  const inVpn = judge(
    { ...good, address: { address: '127.0.0.1', isOwn: true, others: [], doubtful } },
    { ...cluster, address: '127.0.0.1' },
  );
  assert.match(
    inVpn[0]?.remedy ?? '',
    /^where .* at 10\.8\.0\.2 of wg0, 192\.0\.2\.9 of br-lan, say so: FLYNN_ADDRESS=10\.8\.0\.2; or give /,
  );
  for (const given of ['0.0.0.0', '127.0.0.1', '169.254.3.4', '239.0.0.1']) {
    assert.match(judged(given, ['192.0.2.7'])[0] ?? '', /by which others.*; FLYNN_ADDRESS=192\.0\.2\.7$/);
  }
  assert.deepEqual(judged('127.0.0.1', [], { isHost: true, knownAddresses: ['127.0.0.1'] }), []);
  assert.equal(judged('127.0.0.1', ['192.0.2.7'], { isHost: true, knownAddresses: ['192.0.2.7'] }).length, 1);
  const behind = { ...cluster, site: 'home', localAddress: '127.0.0.1' };
  assert.equal(judge(good, behind).length, 1, 'that of a host behind NAT, for those of its network');
  assert.equal(judge(good, { ...cluster, address: '127.0.0.1' }, 'joining').length, 1);
});

test('no cluster is made over one of its name whose state is not there, whether or not that runs', () => {
  // As after a boot without the disk of the state.
  const left = { containers: 0, volumes: 4 };
  for (const [scope, isClusterUp] of [['host', false] as const, ['joining', true] as const]) {
    const [problem, more] = judge({ ...good, unclaimed: left, isNameGiven: true, isClusterUp }, cluster, scope);
    assert.equal(more, undefined);
    assert.match(problem?.what ?? '', /0 containers and 4 volumes of a cluster flynn, .* not in \/var\/lib\/flynn$/);
    assert.match(problem?.remedy ?? '', /mount the disk.*FLYNN_STATE_DIR=FOLDER npm run up\b/);
  }
  const running = { containers: 12, volumes: 4, unitStateDir: '/data/flynn' };
  assert.match(
    whats({ unclaimed: running, isClusterUp: true }).join(),
    /^the unit flynn-host-flynn .*in \/data\/flynn,/,
  );
  assert.doesNotMatch(whats({ unclaimed: running, isRoot: false }).join(), /unit/, 'nobody else sees what is there');
  // A machine that joins is told the cluster's name later, and judged by that.
  assert.deepEqual(judge({ ...good, unclaimed: left }, cluster, 'joining'), []);
  assert.equal(judge({ ...good, unclaimed: left }, cluster, 'host').length, 1);
  // Hosts of their own on this machine have engines of their own.
  assert.deepEqual(judge({ ...good, unclaimed: left }, cluster, 'machine'), []);
});

test('a folder with other things in it is not taken for the state directory: all of it would go with the cluster', () => {
  assert.deepEqual(whats({ strangers: ['.bashrc', 'backups', 'mail', 'web', 'www'], isClusterUp: true }), [
    "the folder for the cluster's state (FLYNN_STATE_DIR) has other things in it already: .bashrc, backups, mail and 2 more",
  ]);
});

test('who uses a port is named', () => {
  assert.match(
    whats({ listeners: [listener(80, '127.0.0.1')] })[0] ?? '',
    /port 80, for HTTP, is used by nginx \(pid 812\)/,
  );
  assert.match(whats({ listeners: [listener(443)] })[0] ?? '', /port 443, for HTTPS, is used by nginx \(pid 812\)/);
});

test('an engine that gives no container the network of the host is in the way, of hosts that are there already too', () => {
  for (const scope of ['machine', 'joining', 'host'] as const) {
    const facts: Facts = { ...good, engineModes: ['userns'], isHost: true, isClusterUp: true };
    const [problem, more] = judge(facts, cluster, scope);
    assert.equal(more, undefined);
    assert.match(problem?.what ?? '', /userns-remap/);
  }
});

test('no two of the router’s ports are the same', () => {
  const wrong = judge(good, { ...cluster, httpsPort: 2222 }).map(({ what, remedy }) => `${what}; ${remedy}`);
  assert.deepEqual(wrong, ['HTTPS and git are both to use port 2222; choose another FLYNN_GIT_PORT']);
  assert.equal(judge(good, { ...cluster, httpsPort: 80 }).length, 1);
});

test('a port of the router’s is one, and none that hosts need, also where a cluster that runs is given another', () => {
  const told = (change: Partial<typeof cluster>): string[] =>
    judge({ ...good, isClusterUp: true }, { ...cluster, ...change }).map(({ what, remedy }) => `${what}; ${remedy}`);
  assert.deepEqual(told({ gitPort: 2379 }), [
    'git is to use port 2379, which is for etcd; choose another FLYNN_GIT_PORT',
  ]);
  assert.equal(told({ httpPort: 1111 }).length, 1);
  assert.equal(told({ httpPort: 2222 }).length, 1);
  assert.deepEqual(told({ httpPort: 65_300 }), [
    'HTTPS is to use port 65663, which is none; choose another FLYNN_HTTPS_PORT',
  ]);
});

test('a name server on another address of the machine is no obstacle, one on every address is', () => {
  assert.deepEqual(whats({ listeners: [listener(53, '127.0.0.53', 'udp')] }), []);
  assert.equal(whats({ listeners: [listener(53, '*', 'udp'), listener(53, '*', 'tcp')] }).length, 1);
});

test('who listens on an address that is not wanted is in nobody’s way; etcd’s ports are wanted on all of them', () => {
  assert.equal(whats({ listeners: [listener(1113, '127.0.0.1')] }).length, 1);
  assert.equal(whats({ listeners: [listener(1113, '10.9.9.9')] }).length, 0);
  assert.equal(whats({ listeners: [listener(1116, '*')] }).length, 1);
  assert.equal(whats({ listeners: [listener(1116, '127.0.0.1')] }).length, 0);
  assert.equal(whats({ listeners: [listener(2379, '10.9.9.9')] }).length, 1);
});

test('whoever has the tunnel’s port, on any address, or the router’s is named', () => {
  assert.deepEqual(whats({ listeners: [listener(1115, '10.9.9.9', 'udp')] }), [
    'udp port 1115, for the tunnel to other hosts, is used by nginx (pid 812) on 10.9.9.9',
  ]);
  assert.equal(whats({ listeners: [listener(1115, '*', 'tcp')] }).length, 0);
  assert.equal(whats({ listeners: [listener(1114, '10.9.9.9')] }).length, 1);
  const { owner: _owner, ...nobodys } = listener(1115, '*', 'udp');
  assert.match(whats({ listeners: [nobodys] })[0] ?? '', /another program, or a tunnel of the kernel on every address/);
});

test('an nft or ip that cannot do what the network needs is told with its version and its own words', () => {
  const [nft, ip] = judge(
    {
      ...good,
      nft: { version: 'v0.9.0', refusal: 'syntax error, unexpected th' },
      ip: { version: 'iproute2-ss161212', refusal: 'Option "-j" is unknown, try "ip -help".' },
    },
    cluster,
  );
  assert.match(nft?.what ?? '', /^nft \(v0\.9\.0\) refuses .*unexpected th$/);
  assert.match(nft?.remedy ?? '', /nftables 0\.9\.3/);
  assert.match(ip?.what ?? '', /^ip \(iproute2-ss161212\).*"-j" is unknown/);
  assert.match(ip?.remedy ?? '', /iproute2 4\.16/);
});

test('a clock that goes by a server is right: what was written later was by one that was ahead', () => {
  const clock = { now: 0, notBefore: Date.parse('2026-11-20T12:00:00Z') };
  assert.deepEqual(whats({ clock: { ...clock, isSynchronized: true } }), []);
  assert.equal(whats({ clock: { ...clock, isSynchronized: false } }).length, 1);
});

test('a clock from before anything here was written is told, for it makes certificates nobody accepts', () => {
  const clock = { now: 0, notBefore: Date.parse('2026-11-20T12:00:00Z') };
  const [problem, ...others] = judge({ ...good, clock }, cluster, 'joining');
  assert.match(problem?.what ?? '', /says 1970-01-01T.* written at 2026-11-20T12/);
  assert.match(problem?.remedy ?? '', /timedatectl|date/);
  assert.deepEqual(others, []);
});

test('what a joining host cannot know yet is no obstacle before the cluster has told it', () => {
  const facts = { ...good, listeners: [listener(80)], networks: [{ device: 'eth1', subnet: '100.100.0.0/24' }] };
  assert.equal(judge(facts, cluster).length, 2);
  assert.deepEqual(judge(facts, cluster, 'joining'), []);
  assert.equal(judge({ ...facts, listeners: [listener(2379)] }, cluster, 'joining').length, 1);
});

test('a cluster that runs is not in its own way', () => {
  assert.deepEqual(whats({ isClusterUp: true, listeners: [listener(80), listener(2222)], memoryBytes: 1e9 }), []);
});

test('a host of a cluster whose disk has filled up is brought up after a boot', () => {
  const small: Partial<Facts> = { disks: [{ path: '/var/lib/flynn', freeBytes: 1e9 }], memoryBytes: 1e9 };
  assert.equal(whats(small).length, 2);
  assert.deepEqual(whats({ ...small, isHost: true }), []);
});

test('the cluster’s own bridge does not overlap with itself, others do', () => {
  assert.deepEqual(whats({ networks: [{ device: 'flynn0', subnet: '100.100.0.0/24' }] }), []);
  assert.match(
    whats({ networks: [{ device: 'tun0', subnet: '100.100.0.128/25' }] })[0] ?? '',
    /^100\.100\.0\.128\/25 of tun0 overlaps 100\.100\.0\.0\/24/,
  );
});

test('what overlaps is told with what helps: another range for a cluster that is made, and none for one that is joined', () => {
  const networks = [{ device: 'tun0', subnet: '100.100.0.128/25' }];
  const remedies = [true, false].map(
    (hasPlatform) => judge({ ...good, networks }, { ...cluster, hasPlatform })[0]?.remedy,
  );
  // Of a backup another command would make an empty cluster.
  assert.match(remedies[0] ?? '', /: the same command again with FLYNN_RANGE=\S+$/);
  assert.doesNotMatch(remedies[0] ?? '', /npm run up/);
  assert.equal(
    remedies[1],
    'take tun0 away, or its network: the cluster gives this host 100.100.0.0/24, of its own range',
  );
});

/** What stands in the way of who makes a cluster, and of who joins one; and what that one is told all the same. */
const ranged = (facts: Partial<Facts>, change: Partial<typeof cluster> = {}) => {
  const all = { ...good, ...facts };
  const making = { ...cluster, ...change };
  const joining = { ...making, hasPlatform: false };
  assert.deepEqual(rangeWarnings(all, making), []);
  const problems = (as: typeof cluster) => judge(all, as).map(({ what, remedy }) => `${what}; ${remedy}`);
  return { made: problems(making), joined: problems(joining), warned: rangeWarnings(all, joining) };
};

test('a cluster is made of a range of which nothing is in use; who joins one is told what is, and comes in', () => {
  const near = { networks: [{ device: 'eth0', subnet: '100.100.50.0/24' }] };
  // As one cloud has them.
  const dns = { nameServers: ['100.100.2.136', '192.0.2.53'] };
  // An address of a cloud is in no network of the machine.
  const own = { address: { address: '192.0.2.7', isOwn: true, others: ['192.0.2.7', '100.100.60.7'] } };
  for (const [facts, what] of [
    [near, '100.100.50.0/24 of eth0 overlaps'],
    [dns, 'the name server 100.100.2.136 is in'],
    [own, '100.100.60.7, an address of this machine, is in'],
    [
      { enginePools: ['100.100.64.0/18'] },
      '100.100.64.0/18, of which the container engine gives networks addresses (default-address-pools), overlaps',
    ],
  ] as const) {
    const { made, joined, warned } = ranged(facts);
    assert.deepEqual([made.length, joined, warned.length], [1, [], 1]);
    assert.ok(made[0]?.startsWith(`${what} 100.100.0.0/16, for the containers of all hosts; `), made[0]);
    assert.match(made[0] ?? '', /FLYNN_RANGE=/);
    assert.ok(warned[0]?.startsWith(`${what} 100.100.0.0/16, of which the containers of each host `), warned[0]);
  }
  const other = { range: '10.231.0.0/16', subnet: '10.231.0.0/24' };
  assert.deepEqual(ranged({ ...near, ...dns, ...own }, other), { made: [], joined: [], warned: [] });
  const inNear = { ...near, nameServers: ['100.100.50.1'] };
  assert.deepEqual([ranged(inNear).made.length, ranged(inNear).warned.length], [1, 1], 'once for both');
  assert.deepEqual(rangeWarnings({ ...good, ...near, isHost: true }, { ...cluster, hasPlatform: false }), []);
});

test('who joins is refused for what is where its own containers are to be', () => {
  const subnet = '100.100.7.0/24';
  for (const [facts, expected] of [
    [
      { networks: [{ device: 'eth1', subnet: '100.100.0.0/20' }] },
      /^100\.100\.0\.0\/20 of eth1 overlaps .*; take eth1/,
    ],
    [{ nameServers: ['100.100.7.53'] }, /^the name server 100\.100\.7\.53 is in .*; let the machine ask another one/],
    [
      { address: { address: '192.0.2.7', isOwn: true, others: ['100.100.7.9'] } },
      /^100\.100\.7\.9, an address .*; give it another address/,
    ],
  ] as const) {
    const { joined, warned } = ranged(facts, { subnet });
    assert.equal(joined.length, 1);
    assert.match(joined[0] ?? '', expected);
    assert.match(joined[0] ?? '', /100\.100\.7\.0\/24, for containers here; /);
    assert.deepEqual(warned, []);
  }
  // Of a host behind NAT the address is its gateway.
  const behind = { site: 'home', address: '100.100.7.1', subnet };
  assert.deepEqual(ranged({}, behind), { made: [], joined: [], warned: [] });
});

test('networks that flynn made here are in the way of what overlaps them, and not of the rest of the range', () => {
  const of = (subnet: string): Partial<Facts> => ({ networks: [{ device: 'flt1', subnet, isOurs: true }] });
  assert.deepEqual(ranged(of('100.100.210.0/24')), { made: [], joined: [], warned: [] });
  const { made, joined } = ranged(of('100.100.0.0/24'));
  assert.deepEqual([made.length, joined.length], [1, 1]);
});

test('a cluster is made of no range that a VPN drops all of which does not come from it; beside that VPN it is joined', () => {
  const networks: Network[] = [...good.networks, tailscale];
  const facts = { networks, nameServers: ['100.100.100.100'] };
  const { made, ...joining } = ranged(facts);
  assert.match(made.join(), /^100\.64\.0\.0\/10 of tailscale0 overlaps [^;]*; [^;]*FLYNN_RANGE=\S+$/);
  // Its name server is asked through it, also where a host has that part of the range. docs/installing.md says what more it takes.
  assert.deepEqual(joining, { joined: [], warned: [] });
  assert.deepEqual(ranged(facts, { subnet: '100.100.100.0/24' }).joined, []);
  assert.deepEqual(ranged(facts, { range: '10.231.0.0/16', subnet: '10.231.0.0/24' }).made, []);
  assert.deepEqual(whats({ ...facts, isHost: true }), []);
  assert.equal(ranged({ nameServers: ['100.100.100.100'] }).warned.length, 1, 'without it it is anybody’s');
});

test('a host that is there has routes to the subnets of others, and keeps the range that it has', () => {
  const networks = [{ device: 'eth0', subnet: '100.100.1.0/24' }];
  assert.deepEqual(whats({ networks, isHost: true, nameServers: ['100.100.2.136'] }), []);
  assert.equal(whats({ networks: [{ device: 'tun0', subnet: '100.100.0.0/16' }], isHost: true }).length, 1);
});

test('subnets overlap when one contains the other', () => {
  assert.ok(overlaps('10.0.0.0/8', '10.200.0.0/16'));
  assert.ok(overlaps('10.200.0.0/16', '10.0.0.0/8'));
  assert.ok(overlaps('0.0.0.0/0', '10.0.0.0/8'));
  assert.ok(!overlaps('10.1.0.0/16', '10.2.0.0/16'));
  assert.ok(!overlaps('192.0.2.0/25', '192.0.2.128/25'));
});

test('listeners are read from the kernel’s tables, connections left out', () => {
  const tcp = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    '   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1',
    '   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1',
    '   2: 0100007F:0050 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 333 1',
  ].join('\n');
  assert.deepEqual(parseListeners(tcp, 'tcp'), [
    { protocol: 'tcp', address: '127.0.0.1', port: 80, inode: '111' },
    { protocol: 'tcp', address: '*', port: 22, inode: '222' },
  ]);
  const tcp6 =
    'header\n   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 444 1\n' +
    '   1: 0000000000000000FFFF0000070200C0:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 555 1';
  assert.deepEqual(
    parseListeners(tcp6, 'tcp').map(({ address, port }) => ({ address, port })),
    [
      { address: '*', port: 8080 },
      { address: '192.0.2.7', port: 8081 },
    ],
  );
});

test('no route can have a port that hosts need for themselves', () => {
  const refused = new Set(platformPorts.map(({ port }) => port));
  for (const { port, protocol, use } of gatewayPorts) {
    if (protocol === 'tcp') assert.ok(refused.has(port), `${port}, for ${use}`);
  }
});
