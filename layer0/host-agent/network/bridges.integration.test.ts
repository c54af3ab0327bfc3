/** What comes by other bridges of a machine than its containers': by the one its own address is on, and by those of builds. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { buildBridge } from '../engine/labels.ts';
import { bridgeProbe } from './bridge-match.ts';
import { HostNetwork } from './host-network.ts';
import type { Lease } from './lease.ts';
import { type Answer, Namespaces } from './namespaces.ts';
import type { Endpoint } from './policy.ts';
import { rulesetOf } from './ruleset.ts';
import { testSettings } from './settings-fixture.ts';

const steps = buildBridge('flynn-test-build-b1');
const metadata = '169.254.169.254';
const endpoints: Endpoint[] = [1, 2].map((index) => ({
  service: 'shop-web',
  group: 'shop',
  address: `100.100.${index}.2`,
  port: 80,
}));

const networks: HostNetwork[] = [];
const tasks = new TaskGroup();
let isMetadataOpen = false;
let namespaces: Namespaces;
let directory: string;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'flynn-network-'));
  namespaces = await Namespaces.create('flynnbr');
  const leases: Lease[] = [];
  for (const [name, index] of [['one', 1] as const, ['two', 2] as const]) {
    const address = await namespaces.addHost(name, { index, rules: '20.10', isNeighbour: true });
    leases.push({ hostId: name, address, subnet: `100.100.${index}.0/24`, joinedAt: index });
  }
  await putUplinkOnBridge('two', leases[1]?.address ?? '');
  for (const [index, { hostId: name, address, subnet }] of leases.entries()) {
    const container = `100.100.${index + 1}.2`;
    const wireguard = { ...testSettings.wireguard, device: `flwg7117-${index + 1}`, key: '' };
    const network = new HostNetwork({
      settings: () => ({
        ...testSettings,
        hostId: name,
        address,
        subnet,
        gateway: container.replace(/2$/, '1'),
        wireguard,
        isMetadataOpen,
      }),
      file: join(directory, `${name}.json`),
      jobs: () => [{ address: container, reach: { group: 'shop', links: [], access: [] } }],
      run: namespaces.in(name).run,
      runBeside: namespaces.in(name).run,
      checkEveryMs: 500,
      log: silentLogger(),
    });
    networks.push(network);
    network.follow(() => ({ leases, endpoints, word: 'off' }));
    tasks.run(name, (signal) => network.run(signal));
    await namespaces.addContainer(`web${index + 1}`, name, container);
    await namespaces.serve(`web${index + 1}`, [80]);
  }
  await addStep();
  await namespaces.in('outside').sh(`ip addr add ${metadata}/32 dev lo`);
  await namespaces.serve('outside', [53]);
});

after(async () => {
  await tasks.stop();
  await namespaces[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** As machines have it that run virtual ones beside. */
async function putUplinkOnBridge(host: string, address: string): Promise<void> {
  await namespaces.in(host).sh(`
    ip addr del ${address}/26 dev eth0; ip link add vmbr0 type bridge; ip link set eth0 master vmbr0
    ip link set vmbr0 up; ip addr add ${address}/26 dev vmbr0; ip route add default via 192.0.2.1
  `);
}

/** On host one, in a network that the engine keeps apart from the containers'. */
async function addStep(): Promise<void> {
  await namespaces.in('one').sh(`
    ip link add ${steps} type bridge; ip addr add 172.18.0.1/24 dev ${steps}; ip link set ${steps} up
    echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter; echo 2 > /proc/sys/net/ipv4/conf/${steps}/rp_filter
    iptables -A DOCKER-ISOLATION-STAGE-1 -i ${steps} ! -o ${steps} -j DOCKER-ISOLATION-STAGE-2
    iptables -A DOCKER-ISOLATION-STAGE-2 -o flynn0 -j DROP
    iptables -A FORWARD -i ${steps} ! -o ${steps} -j ACCEPT
    iptables -A FORWARD -o ${steps} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
    iptables -t nat -A POSTROUTING -s 172.18.0.0/24 ! -o ${steps} -j MASQUERADE
  `);
  await namespaces.addContainer('step', 'one', '172.18.0.2', steps);
}

async function until(from: string, target: string, answer: Answer): Promise<void> {
  await waitFor(
    async () => JSON.stringify(await namespaces.ask(from, target, { seconds: 5 })) === JSON.stringify(answer),
    { what: `${from} to have ${JSON.stringify(answer)} of ${target}`, deadlineMs: 60_000, intervalMs: 100 },
  );
}

test('containers of a host whose own address is on a bridge and those of others reach each other', async () => {
  await until('web1', '100.100.2.2:80', { from: '100.100.1.2' });
  await until('web2', '100.100.1.2:80', { from: '100.100.2.2' });
  assert.deepEqual(
    networks.flatMap(({ problems }) => problems),
    [],
  );
});

test('nft takes what it is asked about bridges, and the rules that follow, where the kernel knows the match', async () => {
  const { run } = namespaces.in('one');
  const rules = rulesetOf({
    settings: testSettings,
    tunnel: 'flynnvx7117',
    mates: [],
    bridgeMac: '02:00:00:00:00:01',
    canMatchBridge: true,
    others: [],
    policies: [],
    services: [],
  });
  // Every kernel has this match, and nft reads it alike.
  const known = rules.replaceAll('meta ibrname', 'meta iifname');
  assert.notEqual(known, rules);
  for (const input of [bridgeProbe('meta iifname "flynn"'), known]) {
    await run({ program: 'nft', args: ['-c', '-f', '-'], input }, AbortSignal.timeout(60_000));
  }
});

/** Sends a datagram to a port of the first container. */
async function say(from: string, word: string, address?: string): Promise<void> {
  const bound = address === undefined ? '' : `s.bind(0, '${address}');`;
  const program = `const s = require('node:dgram').createSocket('udp4'); ${bound}
    s.send('${word}', 8125, '100.100.1.2', () => s.close());`;
  await namespaces.in(from).sh(`${process.execPath} -e "${program}"`);
}

test('a step of a build that says it is another host’s container, or that host, is heard by none', async () => {
  const program = `const s = require('node:dgram').createSocket('udp4');
    s.on('message', (word) => { console.log(String(word)); if (String(word) === 'end') s.close(); });
    s.bind(8125);`;
  const heard = namespaces.in('web1').sh(`timeout 50 ${process.execPath} -e "${program}"`);
  await waitFor(async () => (await namespaces.in('web1').sh('ss -lun')).includes(':8125'), {
    what: 'the container to listen',
    deadlineMs: 60_000,
    intervalMs: 50,
  });
  for (const address of ['100.100.2.77', '192.0.2.3']) {
    await namespaces.in('step').sh(`ip addr add ${address}/32 dev lo`);
    await say('step', address, address);
    await namespaces.in('step').sh(`ip addr del ${address}/32 dev lo`);
  }
  // A host is heard.
  await say('two', 'end');
  assert.equal((await heard).trim(), 'end');
});

test('what a cloud tells the machine is closed to apps and builds, its name servers are not; a host may open it', async () => {
  for (const from of ['web1', 'step']) {
    await until(from, `${metadata}:80`, 'refused');
    await until(from, `${metadata}:53`, { from: '192.0.2.2' });
    await until(from, '192.0.2.1:80', { from: '192.0.2.2' });
  }
  await until('one', `${metadata}:80`, { from: '192.0.2.2' });
  isMetadataOpen = true;
  for (const from of ['web1', 'step']) await until(from, `${metadata}:80`, { from: '192.0.2.2' });
});
