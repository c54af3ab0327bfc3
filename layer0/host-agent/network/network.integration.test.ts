import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { HostNetwork } from './host-network.ts';
import type { Lease } from './lease.ts';
import { type Answer, Namespaces, outsideAddress } from './namespaces.ts';
import type { Access, Endpoint, LocalJob } from './policy.ts';
import { removeNetwork } from './removal.ts';

/** Hosts one and two are neighbours; three is behind a router, so that the way to it is a tunnel. */
const hosts = [
  { name: 'one', index: 1, isNeighbour: true, rules: '20.10' },
  { name: 'two', index: 2, isNeighbour: true, rules: '28' },
  { name: 'three', index: 3, isNeighbour: false, rules: '28' },
] as const;
const platform = [53, 1111, 1113, 1114, 1116, 2379];

const leases: Lease[] = [];
const jobs = new Map<string, LocalJob[]>();
const networks = new Map<string, HostNetwork>();
/** Who begins no connections for the moment, on host one. */
let held: string[] = [];
let endpoints: Endpoint[] = [];
let namespaces: Namespaces;
let directory: string;
const tasks = new TaskGroup();
const crowdOfOne = {
  holders: [],
  get held() {
    return held;
  },
};

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'flynn-network-'));
  namespaces = await Namespaces.create('flynnnet');
  for (const host of hosts) {
    const address = await namespaces.addHost(host.name, host);
    leases.push({ hostId: host.name, address, subnet: `100.100.${host.index}.0/24`, joinedAt: host.index });
    jobs.set(host.name, []);
  }
  for (const { name, index } of hosts) {
    const network = new HostNetwork({
      settings: () => ({
        cluster: 'test',
        hostId: name,
        address: leases[index - 1]?.address ?? '',
        subnet: `100.100.${index}.0/24`,
        gateway: `100.100.${index}.1`,
        bridge: 'flynn0',
        range: '100.100.0.0/16',
        backend: 'auto',
        vxlanId: 7117,
        vxlanPort: 1115,
        wireguard: { device: `flwg7117-${index}`, port: 1117, key: '', keyFile: join(directory, 'none') },
      }),
      file: join(directory, `${name}.json`),
      jobs: () => jobs.get(name) ?? [],
      ...(name === 'one' ? { crowd: crowdOfOne } : {}),
      run: namespaces.in(name).run,
      runBeside: namespaces.in(name).run,
      checkEveryMs: 500,
      log: silentLogger(),
    });
    networks.set(name, network);
    network.follow(() => ({ leases, endpoints, word: 'off' }));
    tasks.run(name, (signal) => network.run(signal));
  }
  for (const [index, name] of ['one', 'two', 'three'].entries()) {
    await job(`web${index + 1}`, name, `100.100.${index + 1}.2`, { group: 'shop' });
    await namespaces.serve(`web${index + 1}`, [80, 81, 82]);
    await namespaces.serve(name, [...platform, 8080]);
  }
  await job('other', 'one', '100.100.1.3', { group: 'other' });
  await job('linked', 'one', '100.100.1.4', { group: 'linked', links: ['shop-web'] });
  await job('system', 'one', '100.100.1.5', {
    group: 'system',
    access: ['agents', 'discovery', 'services', 'store'],
  });
  await job('builder', 'one', '100.100.1.6', { group: 'builds', access: ['discovery'] });
  await job('keeper', 'one', '100.100.1.7', { group: 'db', access: ['keyspace'] });
  // On the bridge, but nobody's job.
  await namespaces.addContainer('stranger', 'one', '100.100.1.9');
  endpoints = [1, 2, 3].flatMap((index) =>
    [80, 82].map((port) => ({ service: 'shop-web', group: 'shop', address: `100.100.${index}.2`, port })),
  );
  endpoints.push({ service: 'router', group: 'system', address: '192.0.2.2', port: 1114 });
  for (const network of networks.values()) network.changed();
  // Each host follows by itself.
  await until('web1', '100.100.2.2:80', { from: '100.100.1.2' });
  await until('web1', '100.100.3.2:80', { from: '100.100.1.2' });
  await until('web2', '100.100.1.2:80', { from: '100.100.2.2' });
  await until('web3', '100.100.2.2:80', { from: '100.100.3.2' });
});

after(async () => {
  await tasks.stop();
  await namespaces[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function job(
  name: string,
  host: string,
  address: string,
  reach: { group: string; links?: string[]; access?: Access[] },
): Promise<void> {
  await namespaces.addContainer(name, host, address);
  jobs.get(host)?.push({ address, reach: { links: [], access: [], ...reach } });
}

async function until(from: string, target: string, answer: Answer): Promise<void> {
  await waitFor(
    async () => JSON.stringify(await namespaces.ask(from, target, { seconds: 5 })) === JSON.stringify(answer),
    {
      what: `${from} to reach ${target}`,
      deadlineMs: 60_000,
      intervalMs: 100,
    },
  );
}

/** Silence is told from an answer that a busy machine gives late. */
async function answers(from: string, targets: Record<string, Answer>): Promise<void> {
  const asked = await Promise.all(
    Object.entries(targets).map(async ([target, expected]) => {
      const answer = await namespaces.ask(from, target, expected === 'silent' ? {} : { seconds: 20 });
      return [target, answer] as const;
    }),
  );
  assert.deepEqual(Object.fromEntries(asked), targets, `from ${from}`);
}

test('jobs of a group reach each other at announced ports, on this host, a neighbour and through the tunnel, by their own addresses', async () => {
  await answers('web1', {
    '100.100.2.2:80': { from: '100.100.1.2' },
    '100.100.3.2:80': { from: '100.100.1.2' },
    '100.100.2.2:81': 'refused',
    '100.100.3.2:81': 'refused',
  });
  await answers('web3', { '100.100.1.2:80': { from: '100.100.3.2' }, '100.100.2.2:80': { from: '100.100.3.2' } });
});

test('what fills packets to the brim gets through the tunnel, which takes less than the links of the containers', async () => {
  const { sh } = namespaces.in('web1');
  assert.match(await sh('ip link show eth0'), /mtu 1500/);
  assert.match(await namespaces.in('one').sh('ip link show flynnvx7117'), /mtu 1450/);
  const received = await sh("timeout 30 bash --norc -c 'exec 3<>/dev/tcp/100.100.3.2/82; wc -c <&3'");
  assert.equal(received.trim(), '2000000');
});

test('other groups are closed on the same host and on others; a link opens the announced port and nothing else', async () => {
  const closed = { '100.100.1.2:80': 'refused', '100.100.2.2:80': 'refused', '100.100.3.2:80': 'refused' } as const;
  await answers('other', closed);
  await answers('linked', {
    '100.100.1.2:80': { from: '100.100.1.4' },
    '100.100.2.2:80': { from: '100.100.1.4' },
    '100.100.3.2:80': { from: '100.100.1.4' },
    '100.100.1.2:81': 'refused',
    '100.100.3.2:81': 'refused',
  });
  await answers('stranger', { '100.100.1.2:80': 'silent', '100.100.3.2:80': 'silent', '100.100.1.1:1111': 'silent' });
});

test("the platform's ports are closed on every address of every host, but for those that were given access; DNS is open", async () => {
  await answers('web1', {
    '100.100.1.1:53': { from: '100.100.1.2' },
    '100.100.1.1:1111': 'refused',
    '100.100.1.1:1113': 'refused',
    '100.100.1.1:2379': 'refused',
    '192.0.2.2:2379': 'refused',
    '192.0.2.3:2379': 'refused',
    '192.0.2.3:1113': 'refused',
    '192.0.2.194:2379': 'refused',
    '100.100.2.1:1113': 'refused',
    '100.100.2.1:53': 'refused',
    '100.100.1.1:1116': 'refused',
    '192.0.2.2:1116': 'refused',
    '100.100.2.1:1116': 'refused',
  });
  await answers('keeper', {
    '100.100.1.1:1116': { from: '100.100.1.7' },
    '192.0.2.2:1116': 'refused',
    '192.0.2.3:1116': 'refused',
    '100.100.2.1:1116': 'refused',
    '100.100.1.1:1111': 'refused',
    '100.100.1.1:2379': 'refused',
  });
  await answers('builder', {
    '100.100.1.1:1111': { from: '100.100.1.6' },
    '100.100.1.1:1113': 'refused',
    '192.0.2.3:2379': 'refused',
    '100.100.1.2:80': 'refused',
  });
  await answers('system', {
    '100.100.1.1:1111': { from: '100.100.1.5' },
    '192.0.2.3:1113': { from: '192.0.2.2' },
    '192.0.2.194:2379': { from: '192.0.2.2' },
    '192.0.2.2:2379': { from: '100.100.1.5' },
    '100.100.2.2:80': { from: '100.100.1.5' },
    '100.100.2.2:81': 'refused',
    '100.100.1.1:1116': 'refused',
  });
});

test("a firewall that lets nothing in does not keep jobs from their host's own services, but from what else is behind it", async () => {
  const one = namespaces.in('one');
  await one.sh('iptables -A INPUT -j DROP');
  try {
    await answers('web1', { '100.100.1.1:53': { from: '100.100.1.2' }, '192.0.2.2:8080': 'silent' });
    await answers('system', { '100.100.1.1:1111': { from: '100.100.1.5' } });
    await answers('keeper', { '100.100.1.1:1116': { from: '100.100.1.7' } });
  } finally {
    await one.sh('iptables -D INPUT -j DROP');
  }
});

test('the firewall of docs/installing.md lets in what hosts and jobs need, and nobody else', async () => {
  const docs = await readFile(new URL('../../../docs/installing.md', import.meta.url), 'utf8');
  const shown = /## Ports and firewalls\n[^]*?```\n([^]*?)```/.exec(docs)?.[1] ?? '';
  const input = shown.replace('10.0.0.1, 10.0.0.2, 10.0.0.3', leases.map(({ address }) => address).join(', '));
  assert.notEqual(input, shown);
  const signal = AbortSignal.timeout(60_000);
  const load = (args: string[]) => ({ program: 'nft', args: [...args, '-f', '-'], input });
  for (const { name } of hosts) {
    for (const args of [['-c'], []]) await namespaces.in(name).run(load(args), signal);
  }
  try {
    await answers('web1', {
      '100.100.1.1:53': { from: '100.100.1.2' },
      '100.100.2.2:80': { from: '100.100.1.2' },
      '100.100.3.2:80': { from: '100.100.1.2' },
      '192.0.2.2:8080': 'silent',
      '192.0.2.3:8080': 'silent',
    });
    await answers('system', {
      '100.100.1.1:1111': { from: '100.100.1.5' },
      '192.0.2.2:1113': { from: '100.100.1.5' },
      '192.0.2.2:1114': { from: '100.100.1.5' },
      '192.0.2.2:2379': { from: '100.100.1.5' },
      '192.0.2.3:1113': { from: '192.0.2.2' },
      '192.0.2.194:2379': { from: '192.0.2.2' },
    });
    await answers('keeper', { '100.100.1.1:1116': { from: '100.100.1.7' } });
    // Refused, not silent: nobody listens there, and the firewall let it in.
    await answers('one', {
      '192.0.2.3:1112': 'refused',
      '192.0.2.3:1114': { from: '192.0.2.2' },
      '192.0.2.194:2380': 'refused',
      '100.100.3.2:81': { from: '100.100.1.1' },
    });
    const closed = [1112, 1113, 1114, 1116, 2379, 2380, 8080].map((port) => [`192.0.2.2:${port}`, 'silent'] as const);
    const open = [80, 443, 2222, 3000].map((port) => [`192.0.2.2:${port}`, 'refused'] as const);
    await answers('outside', Object.fromEntries([...closed, ...open]));
  } finally {
    for (const { name } of hosts) await namespaces.in(name).sh('nft delete table inet hostfirewall');
  }
});

test("outside and the hosts' public ports are open, as the host's address", async () => {
  await answers('web1', {
    [`${outsideAddress}:80`]: { from: '192.0.2.2' },
    '192.0.2.2:8080': { from: '100.100.1.2' },
    '192.0.2.3:8080': { from: '192.0.2.2' },
    '192.0.2.194:8080': { from: '192.0.2.2' },
  });
});

test('hosts reach every container; nobody outside does, though it knows the way', async () => {
  await answers('one', {
    '100.100.1.2:81': { from: '100.100.1.1' },
    '100.100.2.2:81': { from: '100.100.1.1' },
    '100.100.3.2:81': { from: '100.100.1.1' },
  });
  await namespaces.in('outside').sh('ip route add 100.100.1.0/24 via 192.0.2.2');
  await answers('outside', {
    '100.100.1.2:80': 'silent',
    '100.100.1.1:1111': 'silent',
    '192.0.2.2:8080': { from: '192.0.2.1' },
  });
  await namespaces.in('outside').sh('ip route del 100.100.1.0/24');
});

test('a packet with a spoofed source does not leave its host', async () => {
  const spoofed = '198.51.100.77';
  const watch = `nft 'table ip watch { chain seen { type filter hook prerouting priority -400; ip saddr ${spoofed} counter; }; }'`;
  const seen = (host: string) => namespaces.in(host).sh('nft list table ip watch');
  for (const host of ['one', 'two']) await namespaces.in(host).sh(watch);
  const { sh } = namespaces.in('other');
  await sh(`ip addr add ${spoofed}/32 dev lo; ip route change default via 100.100.1.1 src ${spoofed}`);
  // Time enough for a busy machine to have begun: what was not sent is seen nowhere.
  assert.equal(await namespaces.ask('other', '192.0.2.3:8080', { seconds: 10 }), 'silent');
  await sh(`ip route change default via 100.100.1.1; ip addr del ${spoofed}/32 dev lo`);
  assert.match(await seen('one'), /packets [1-9]/);
  assert.match(await seen('two'), /packets 0 /);
});

test('a new job and a changed service take effect', async () => {
  await job('late', 'two', '100.100.2.7', { group: 'late', links: ['late-db'] });
  await namespaces.serve('late', [5432]);
  const late = { service: 'late-db', group: 'db', port: 81 };
  endpoints = [...endpoints, { ...late, address: '100.100.3.2' }, { ...late, address: '100.100.2.2' }];
  for (const network of networks.values()) network.changed();
  await until('late', '100.100.3.2:81', { from: '100.100.2.7' });
  // On this host bridged packets do not meet the rules by themselves.
  await answers('late', { '100.100.2.2:81': { from: '100.100.2.7' }, '100.100.2.2:80': 'refused' });
  endpoints = endpoints.filter(({ service }) => service !== 'late-db');
  for (const network of networks.values()) network.changed();
  await until('late', '100.100.3.2:81', 'refused');
});

test('a job that is to begin no connections is refused them, and goes on where others began', async () => {
  held = ['100.100.1.2'];
  networks.get('one')?.changed();
  await until('web1', '100.100.2.2:80', 'refused');
  await answers('web1', { '100.100.1.1:53': 'refused', [`${outsideAddress}:80`]: 'refused' });
  await answers('web2', { '100.100.1.2:80': { from: '100.100.2.2' } });
  held = [];
  networks.get('one')?.changed();
  await until('web1', '100.100.2.2:80', { from: '100.100.1.2' });
});

test('what nobody changed is found as it was left', () => {
  for (const [name, network] of networks) assert.equal(network.repairs, 0, `${name} repaired what was right`);
});

test('what somebody takes away or changes is put right', async () => {
  const one = namespaces.in('one');
  const network = networks.get('one');
  assert.ok(network !== undefined);
  const meddling = [
    'iptables -I DOCKER-USER -j RETURN',
    'iptables -t nat -I POSTROUTING -s 100.100.1.0/24 ! -o flynn0 -j MASQUERADE',
    'iptables -F',
    'nft flush ruleset',
    'ip route flush proto 117',
    'ip route del 100.100.1.0/24 dev flynn0',
    'ip link del flynnvx7117',
    'echo 0 > /proc/sys/net/ipv4/ip_forward',
    'nft delete table bridge flynn_test',
    'nft add rule ip flynn_test decide accept',
  ];
  for (const script of meddling) {
    const { repairs } = network;
    await one.sh(script);
    await waitFor(async () => network.repairs > repairs, { what: script, deadlineMs: 60_000, intervalMs: 100 });
    await until('web1', '100.100.2.2:80', { from: '100.100.1.2' });
    await until('web1', '100.100.3.2:80', { from: '100.100.1.2' });
    await until('web1', `${outsideAddress}:80`, { from: '192.0.2.2' });
    await until('other', '100.100.1.2:80', 'refused');
  }
});

test('what a container that ended without its engine left answers no more at the address that another one has', async () => {
  const one = namespaces.in('one');
  const network = networks.get('one');
  assert.ok(network !== undefined);
  const address = '100.100.1.20';
  // As the engine makes it of the address.
  const giveMac = (name: string) => namespaces.in(name).sh('ip link set eth0 address 02:42:64:64:01:14');
  await namespaces.addContainer('left', 'one', address);
  await giveMac('left');
  const pidFile = join(directory, 'left.pid');
  // A connection of which all was read, and the other end has said goodbye.
  const connect = `exec 3<>/dev/tcp/100.100.1.1/8080; cat <&3 >/dev/null; echo $$ >${pidFile}; exec sleep 600`;
  await namespaces.in('left').sh(`bash --norc -c '${connect}' </dev/null >/dev/null 2>&1 &`);
  const pid = await waitFor(async () => Number(await readFile(pidFile, 'utf8')) || undefined, {
    what: 'its connection',
    deadlineMs: 60_000,
  });
  // Nobody answers its own goodbye.
  await one.sh(`iptables -I INPUT -s ${address} -j DROP`);
  process.kill(pid, 'SIGKILL');
  await waitFor(() => !existsSync(`/proc/${pid}`), { what: 'its end', deadlineMs: 60_000 });
  await namespaces.forget('left');
  await namespaces.addContainer('next', 'one', address);
  await giveMac('next');
  await namespaces.serve('next', [80]);
  const threaded = await threadWithoutLeader('threaded', '100.100.1.21');
  assert.match(await one.sh('ip link'), /vleft@/);

  network.engineIsBack();
  await waitFor(async () => !(await one.sh('ip link')).includes('vleft@'), {
    what: 'its port to be gone',
    // By itself it goes after a hundred seconds.
    deadlineMs: 30_000,
  });
  await one.sh(`iptables -D INPUT -s ${address} -j DROP`);
  assert.deepEqual(await namespaces.ask('one', `${address}:80`, { seconds: 5 }), { from: '100.100.1.1' });
  // Of these some have processes, one only a thread, and the others names.
  for (const name of ['web1', 'other', 'stranger', 'next', 'threaded'])
    assert.match(await one.sh('ip link'), new RegExp(`v${name}@`));
  process.kill(threaded, 'SIGKILL');
});

/** A container without a name; of its only process the first thread has ended, and another runs on. Answers its pid. */
async function threadWithoutLeader(name: string, address: string): Promise<number> {
  await namespaces.addContainer(name, 'one', address);
  const pidFile = join(directory, `${name}.pid`);
  const endThread = process.arch === 'x64' ? 60 : 93;
  const program = `use threads; threads->create(sub { sleep 600 }); syscall(${endThread}, 0)`;
  await namespaces.in(name).sh(`perl -e '${program}' </dev/null >/dev/null 2>&1 & echo $! >${pidFile}`);
  const pid = Number(await readFile(pidFile, 'utf8'));
  const hasEnded = async () => (await readFile(`/proc/${pid}/stat`, 'utf8')).includes(') Z ');
  await waitFor(hasEnded, { what: 'the end of its first thread', deadlineMs: 60_000 });
  await namespaces.forget(name);
  return pid;
}

test('a host that leaves takes its routes along; removal leaves nothing of ours and all of others', async () => {
  const three = leases.pop();
  for (const network of networks.values()) network.changed();
  const one = namespaces.in('one');
  await waitFor(async () => !(await one.sh('ip route; ip link')).includes('flynnvx'), {
    what: 'the tunnel to be gone',
    deadlineMs: 60_000,
    intervalMs: 100,
  });
  assert.ok(three !== undefined);
  await tasks.stop();
  await one.sh('ip route add 100.100.77.0/24 via 192.0.2.3');
  const removed = await removeNetwork({ cluster: 'test', run: one.run });
  assert.ok(removed.length >= 4, removed.join(', '));
  const left = await one.sh('nft list ruleset 2>/dev/null; ip route; ip link; iptables-save');
  assert.doesNotMatch(left, /FLYNN|flynn_|flynnvx|proto 117/);
  assert.match(left, /100\.100\.77\.0\/24/);
  const again = await removeNetwork({ cluster: 'test', run: one.run });
  assert.deepEqual(again, []);
});
