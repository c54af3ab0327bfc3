/**
 * Hosts one and two have addresses that all reach; three and four are in a private network behind a NAT router, five in another.
 * What each host's agent says of it goes by a store, as in a cluster.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { createMemoryStore } from '@flynn/store/memory';
import { type Mirror, openMirror } from '@flynn/store/mirror';
import type { Encryption, EncryptionWord } from './encryption.ts';
import { HostNetwork } from './host-network.ts';
import { type Lease, leaseKey, leasePrefix, leaseSchema } from './lease.ts';
import { relayFor } from './links.ts';
import { type Answer, Namespaces, outsideAddress } from './namespaces.ts';
import { keepOwnLease } from './own-lease.ts';
import type { Endpoint } from './policy.ts';
import { removeNetwork } from './removal.ts';
import type { NetworkSettings } from './state.ts';
import { ensureTunnelKey, tunnelKeyFile } from './tunnel-key.ts';
import { wireguardDevice } from './wireguard.ts';

const hosts = [
  { name: 'one', index: 1, rules: '28', isNeighbour: true },
  { name: 'two', index: 2, rules: '20.10', isNeighbour: true },
  { name: 'three', index: 3, rules: '28', behind: { router: 'home', index: 0 } },
  { name: 'four', index: 4, rules: '20.10', behind: { router: 'home', index: 0 } },
  { name: 'five', index: 5, rules: '28', behind: { router: 'office', index: 1 } },
] as const;
type Name = (typeof hosts)[number]['name'];

const vxlanId = 7118;
const deviceOf = (index: number): string => wireguardDevice(vxlanId, `100.100.${index}.0/24`);
const socketOf = (index: number): string => `/var/run/wireguard/${deviceOf(index)}.sock`;
const log = silentLogger();
const store = createMemoryStore();
const stop = new AbortController();
const settings = new Map<string, NetworkSettings>();
const agents = new Map<string, { network: HostNetwork; tasks: TaskGroup }>();
const endpoints: Endpoint[] = hosts.flatMap(({ index }) =>
  [80, 82].map((port) => ({ service: 'shop-web', group: 'shop', address: `100.100.${index}.2`, port })),
);
let namespaces: Namespaces;
let directory: string;
let leases: Mirror<Lease>;
let word: EncryptionWord = 'off';

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'flynn-wireguard-'));
  // A wireguard-go that a killed run left behind ends with its socket, and would be taken for ours as long as it is there.
  for (const { index } of hosts) await rm(socketOf(index), { force: true });
  namespaces = await Namespaces.create('flynnwg');
  await namespaces.addRouter('home', 0);
  await namespaces.addRouter('office', 1);
  for (const host of hosts) {
    const { name, index } = host;
    const local = await namespaces.addHost(name, host);
    const site = 'behind' in host ? { site: host.behind.router, localAddress: local } : {};
    const address = 'behind' in host ? `100.100.${index}.1` : local;
    const subnet = `100.100.${index}.0/24`;
    const lease: Lease = { hostId: name, address, subnet, joinedAt: index };
    await store.transact({ then: [{ put: leaseKey(name), value: JSON.stringify(lease) }] });
    const stateDir = join(directory, name);
    settings.set(name, {
      cluster: 'test',
      hostId: name,
      address,
      subnet,
      gateway: `100.100.${index}.1`,
      bridge: 'flynn0',
      range: '100.100.0.0/16',
      backend: 'auto',
      vxlanId,
      vxlanPort: 1115,
      ...site,
      wireguard: {
        device: deviceOf(index),
        port: 1117,
        key: await ensureTunnelKey(stateDir),
        keyFile: tunnelKeyFile(stateDir),
      },
    });
  }
  const decode = (json: unknown): Lease => leaseSchema.parse(json);
  leases = await openMirror({ store, prefix: leasePrefix, decode, log, signal: stop.signal });
  leases.onChange(() => {
    for (const { network } of agents.values()) network.changed();
  });
  for (const { name } of hosts) startAgent(name);
  for (const { name, index } of hosts) {
    await namespaces.addContainer(`web${index}`, name, `100.100.${index}.2`);
    await namespaces.serve(`web${index}`, [80, 81, 82]);
    await namespaces.serve(name, [1113, 8080]);
  }
  await everyoneReachesEveryone();
});

after(async () => {
  for (const { tasks } of agents.values()) await tasks.stop();
  stop.abort();
  await leases[Symbol.asyncDispose]();
  await store.close();
  for (const { name } of hosts) await removeNetwork({ cluster: 'test', vxlanId, run: namespaces.in(name).run });
  await namespaces[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** Resolves when all hosts have carried it out, and hear whom they should. */
async function encrypt(step: Encryption): Promise<void> {
  word = step;
  for (const { network } of agents.values()) network.changed();
  const isThere = ({ network }: { network: HostNetwork }): boolean =>
    network.shown.encryption === step && network.shown.hosts.every(({ isHeard }) => isHeard !== false);
  await waitFor(() => [...agents.values()].every(isThere), { what: `encryption to be ${step}`, deadlineMs: 60_000 });
}

function settingsOf(name: string): NetworkSettings {
  const found = settings.get(name);
  assert.ok(found !== undefined, name);
  return found;
}

function startAgent(name: Name): HostNetwork {
  const own = settingsOf(name);
  const { index } = hosts[hosts.findIndex((host) => host.name === name)] ?? hosts[0];
  const network = new HostNetwork({
    settings: () => own,
    file: join(directory, `${name}.json`),
    jobs: () => [{ address: `100.100.${index}.2`, reach: { group: 'shop', links: [], access: [] } }],
    run: namespaces.in(name).run,
    runBeside: namespaces.in(name).run,
    checkEveryMs: 500,
    log,
  });
  const tasks = new TaskGroup();
  const { site, localAddress, wireguard } = own;
  const told = () => ({
    tunnelKey: wireguard.key,
    ...(site === undefined ? {} : { site, localAddress, unheard: network.unheard }),
  });
  network.follow(() => ({
    leases: [...leases.snapshot.entries.values()].map(({ value }) => value),
    endpoints,
    word,
  }));
  tasks.run('network', (signal) => network.run(signal));
  tasks.run('lease', (signal) =>
    keepOwnLease({ hostId: name, told, leases, store, standing: { mayTell: true }, log, checkEveryMs: 200 }, signal),
  );
  agents.set(name, { network, tasks });
  return network;
}

async function stopAgent(name: Name): Promise<void> {
  await agents.get(name)?.tasks.stop();
  agents.delete(name);
}

async function until(from: string, target: string, answer: Answer, deadlineMs = 60_000): Promise<void> {
  await waitFor(
    async () => JSON.stringify(await namespaces.ask(from, target, { seconds: 5 })) === JSON.stringify(answer),
    {
      what: `${from} to reach ${target}`,
      deadlineMs,
      intervalMs: 100,
    },
  );
}

/** A private network's hosts are found once they have spoken. */
async function everyoneReachesEveryone(): Promise<void> {
  for (const from of hosts) {
    const others = hosts.filter(({ index }) => index !== from.index);
    await Promise.all(
      others.map(({ index }) =>
        until(`web${from.index}`, `100.100.${index}.2:80`, { from: `100.100.${from.index}.2` }),
      ),
    );
  }
}

const wg = (index: number, what: string) => namespaces.in(hosts[index - 1]?.name ?? '').sh(`wg ${what}`);

test('containers of all hosts reach each other at announced ports by their own addresses, and at no others', async () => {
  for (const from of hosts) {
    const others = hosts.filter(({ index }) => index !== from.index);
    const answers = await Promise.all(
      others.flatMap(({ index }) =>
        ['80', '81'].map((port) => namespaces.ask(`web${from.index}`, `100.100.${index}.2:${port}`, { seconds: 20 })),
      ),
    );
    const expected = others.flatMap(() => [{ from: `100.100.${from.index}.2` }, 'refused']);
    assert.deepEqual(answers, expected, from.name);
  }
});

test('what fills packets to the brim comes whole, through a relay too', async () => {
  for (const target of ['100.100.1.2', '100.100.3.2']) {
    const script = `timeout 30 bash --norc -c 'exec 3<>/dev/tcp/${target}/82; wc -c <&3'`;
    assert.equal((await namespaces.in('web5').sh(script)).trim(), '2000000', target);
  }
});

test('a host behind NAT is reached at its gateway by the other hosts, and its platform’s ports by no container', async () => {
  for (const { name, index } of hosts) {
    for (const target of [3, 5].filter((one) => one !== index)) {
      const answer = await namespaces.ask(name, `100.100.${target}.1:1113`, { seconds: 20 });
      assert.deepEqual(answer, { from: `100.100.${index}.1` }, `from ${name} to ${target}`);
    }
  }
  assert.equal(await namespaces.ask('web1', '100.100.3.1:1113', { seconds: 20 }), 'refused');
  assert.equal(await namespaces.ask('web5', '100.100.3.1:1113', { seconds: 20 }), 'refused');
  // By the address that it has in the private network as well.
  assert.equal(await namespaces.ask('web4', `${settingsOf('three').localAddress}:1113`, { seconds: 20 }), 'refused');
  assert.equal(await namespaces.ask('outside', '192.0.2.40:1113', { seconds: 20 }), 'refused');
});

test('hosts of one private network reach each other without a detour, public ones as without WireGuard', async () => {
  assert.match(await namespaces.in('three').sh('ip route get 100.100.4.2'), /via 192\.0\.2\.133 dev eth0/);
  assert.match(await namespaces.in('one').sh('ip route get 100.100.2.2'), /via 192\.0\.2\.3 dev eth0/);
  assert.match(await namespaces.in('three').sh('ip route get 100.100.5.2'), /dev flwg7118-3/);
  assert.match(await namespaces.in('one').sh('ip route get 100.100.5.2'), /dev flwg7118-1/);
});

test('through WireGuard nobody gets anywhere but to containers and hosts', async () => {
  const { sh } = namespaces.in('five');
  const relay = relayOf('five', 'three');
  const [index, neighbour] = relay === 'one' ? [1, '192.0.2.3'] : [2, '192.0.2.2'];
  // A host that is not what it was: it sends everything to the relay.
  await stopAgent('five');
  try {
    await sh('nft delete table ip flynn_test; ip addr add 100.100.5.77/32 dev lo');
    await sh(`wg set ${deviceOf(5)} peer ${settingsOf(relay).wireguard.key} allowed-ips 0.0.0.0/0`);
    assert.deepEqual(await namespaces.ask('five', `100.100.${index}.2:81`, { seconds: 20 }), { from: '100.100.5.1' });
    for (const source of ['100.100.5.1', '100.100.5.77', '192.0.2.150']) {
      for (const target of [outsideAddress, neighbour]) {
        await sh(`ip route replace ${target}/32 dev ${deviceOf(5)} src ${source}`);
      }
      assert.equal(await namespaces.ask('five', `${outsideAddress}:80`), 'silent', source);
      assert.equal(await namespaces.ask('five', `${neighbour}:8080`), 'silent', source);
    }
  } finally {
    startAgent('five');
  }
  for (const target of [outsideAddress, neighbour]) await sh(`ip route del ${target}/32 dev ${deviceOf(5)}`);
  await until('web5', '100.100.3.2:80', { from: '100.100.5.2' });
  await until('web5', `${outsideAddress}:80`, { from: '192.0.2.41' });
});

test('what nobody changed is found as it was left; what somebody takes away or changes is put right', async () => {
  const { network } = agents.get('three') ?? {};
  assert.ok(network !== undefined);
  const three = namespaces.in('three');
  const device = deviceOf(3);
  await waitFor(() => network.problems.length === 0, { what: 'no problems', deadlineMs: 60_000 });
  const meddling = [
    `ip link del ${device}`,
    `ip link set ${device} down`,
    `ip link set ${device} mtu 1200`,
    `wg set ${device} listen-port 7777`,
    `wg set ${device} peer ${settingsOf('one').wireguard.key} remove; wg set ${device} peer ${settingsOf('two').wireguard.key} allowed-ips 100.100.9.0/24`,
    `ip route del 100.100.1.0/24`,
    'nft flush ruleset; iptables -F',
    // Where the kernel has no WireGuard it is a process.
    `pid=$(pgrep -f '[w]ireguard-go ${device}') && kill -9 $pid || ip link del ${device}`,
  ];
  for (const script of meddling) {
    const { repairs } = network;
    await three.sh(script);
    await waitFor(() => network.repairs > repairs, { what: script, deadlineMs: 60_000 });
    await until('web3', '100.100.1.2:80', { from: '100.100.3.2' });
    await until('web5', '100.100.3.2:80', { from: '100.100.5.2' });
  }
  for (const [name, agent] of agents) if (name !== 'three') assert.equal(agent.network.repairs, 0, name);
});

test('a router that is given another public address costs no more than a few words', async () => {
  await namespaces.in('home').sh(`
    ip addr del 192.0.2.40/26 dev eth0; ip addr add 192.0.2.50/26 dev eth0; ip route replace default via 192.0.2.1
  `);
  await until('web1', '100.100.3.2:80', { from: '100.100.1.2' });
  await until('web5', '100.100.3.2:80', { from: '100.100.5.2' });
  assert.match(await wg(1, `show ${deviceOf(1)} endpoints`), /192\.0\.2\.50:/);
});

test('those behind NAT find a public host again that began anew and knows nothing of them', async () => {
  await stopAgent('one');
  await namespaces.in('one').sh(`ip link del ${deviceOf(1)}`);
  startAgent('one');
  // Nobody behind NAT has anything to say to it.
  await until('web1', '100.100.3.2:80', { from: '100.100.1.2' }, 120_000);
  await until('web1', '100.100.5.2:80', { from: '100.100.1.2' }, 120_000);
});

test('a host whose key was removed makes another, and the others follow', async () => {
  const { wireguard } = settingsOf('one');
  await stopAgent('one');
  await rm(wireguard.keyFile);
  const key = await ensureTunnelKey(join(directory, 'one'));
  settings.set('one', { ...settingsOf('one'), wireguard: { ...wireguard, key } });
  startAgent('one');
  for (const index of [3, 5]) {
    const peers = () => wg(index, `show ${deviceOf(index)} peers`);
    await waitFor(async () => (await peers()).includes(key), { what: 'the new key', deadlineMs: 60_000 });
    assert.ok(!(await peers()).includes(wireguard.key));
  }
  await until('web1', '100.100.3.2:80', { from: '100.100.1.2' });
  await until('web5', '100.100.1.2:80', { from: '100.100.5.2' });
});

/** Of two hosts behind NAT, by what leases say. */
function relayOf(a: Name, b: Name): 'one' | 'two' {
  const unheard = [a, b].flatMap((name) => leases.snapshot.entries.get(name)?.value.unheard ?? []);
  return relayFor([a, b], ['one', 'two'], new Set(unheard)) === 'one' ? 'one' : 'two';
}

test('a relay that dies is followed by another, and takes up its work again when it is back', async () => {
  const first = relayOf('five', 'three');
  const second = first === 'one' ? 'two' : 'one';
  await namespaces.in(first).sh('ip link set eth0 down');
  await until('web5', '100.100.3.2:80', { from: '100.100.5.2' }, 200_000);
  await until('web3', '100.100.5.2:80', { from: '100.100.3.2' });
  assert.equal(relayOf('five', 'three'), second);
  const told = ['five', 'three'].map((name) => leases.snapshot.entries.get(name)?.value.unheard ?? []);
  assert.ok(
    told.some((unheard) => unheard.includes(first)),
    JSON.stringify(told),
  );
  await namespaces.in(first).sh('ip link set eth0 up; ip route add default via 192.0.2.1');
  await waitFor(() => relayOf('five', 'three') === first, { what: 'the relay to be itself', deadlineMs: 180_000 });
  await everyoneReachesEveryone();
});

test('in an encrypted cluster nothing that containers say can be read between hosts, and nothing goes in clear', async () => {
  const watch = `nft 'table bridge watch {
    chain seen { type filter hook forward priority 0;
      ip saddr 192.0.2.3 udp dport 1117 counter comment "encrypted"
      ip saddr 100.100.0.0/16 counter comment "clear"
      meta l4proto { tcp, udp } @th,4000,64 0x7878787878787878 counter comment "read"
    }
  }'`;
  const counted = async (what: string): Promise<number> => {
    const listed = await namespaces.in('outside').sh('nft list table bridge watch');
    return Number(new RegExp(`packets (\\d+) .*"${what}"`).exec(listed)?.[1]);
  };
  const fetchBig = async (): Promise<void> => {
    const script = "timeout 30 bash --norc -c 'exec 3<>/dev/tcp/100.100.2.2/82; wc -c <&3'";
    assert.equal((await namespaces.in('web1').sh(script)).trim(), '2000000');
  };
  await namespaces.in('outside').sh(watch);
  await fetchBig();
  // Of packets that the kernel has not cut yet.
  assert.ok((await counted('read')) > 10 && (await counted('clear')) > 10, 'in clear it is read');
  for (const step of ['ready', 'sent', 'on'] as const) {
    await encrypt(step);
    await everyoneReachesEveryone();
  }
  await namespaces.in('outside').sh(`nft delete table bridge watch; ${watch}`);
  await fetchBig();
  await everyoneReachesEveryone();
  // Not even while the device is gone, and an agent that starts cannot read the word.
  word = 'unreadable';
  await stopAgent('one');
  await namespaces.in('one').sh(`ip link del ${deviceOf(1)}`);
  assert.equal(await namespaces.ask('web1', '100.100.2.2:80', { seconds: 20 }), 'refused');
  assert.equal(await namespaces.ask('one', '100.100.2.2:80', { seconds: 20 }), 'refused');
  assert.ok((await counted('encrypted')) > 10);
  assert.deepEqual([await counted('read'), await counted('clear')], [0, 0]);
  const network = startAgent('one');
  await until('web1', '100.100.2.2:80', { from: '100.100.1.2' });
  // What the agent before had done leads there already: this one says what it has done itself.
  await waitFor(() => network.shown.encryption === 'on', {
    what: 'the agent to have carried it out',
    deadlineMs: 60_000,
  });
  assert.equal(network.shown.isUnreadable, true);
  assert.equal(await counted('clear'), 0);
});

test('removal takes the device away, and what is behind it', async () => {
  await stopAgent('two');
  const two = namespaces.in('two');
  const removed = await removeNetwork({ cluster: 'test', vxlanId, run: two.run });
  assert.ok(removed.includes(`the WireGuard device ${deviceOf(2)}`), removed.join(', '));
  assert.doesNotMatch(
    await two.sh('ip link; ip route; nft list ruleset; iptables-save'),
    /flwg|proto 117|FLYNN|flynn_/,
  );
  await waitFor(() => !existsSync(socketOf(2)), { what: 'no socket', deadlineMs: 60_000 });
});
