import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { retry, waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { EtcdMembers } from '@flynn/store/etcd-members';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdMembership } from '@flynn/store/etcd-membership';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdClient } from '@flynn/store/etcd';
import { z } from 'zod';
import { clientUrlOf } from './etcd-resident.ts';
import { replaceMember } from './lost-member.ts';
import { etcdImageKey, memberKey } from './member-keys.ts';
import { SimulatedHost } from './membership-fixture.ts';
import { type SimulatedNetwork, createSimulatedNetwork } from './membership-network.ts';
import { knownEndpoints } from './membership.ts';

const image = z.string().parse(process.env['FLYNN_TEST_ETCD_IMAGE']);
const pace = { leaderTtlSeconds: 5, stepMs: 100, idleMs: 300, catchUpMs: 60_000 };
let network: SimulatedNetwork;
const addressOf = (index: number): string => network.addressOf(index);
const hosts = new Map<number, SimulatedHost>();
let folder: string;
let tls: EtcdTls;
let store: EtcdClient;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flynn-membership-'));
  network = await createSimulatedNetwork(image);
  const authority = await createAuthority('flynn test');
  const addresses = ['localhost', ...[1, 2, 3, 4].map(addressOf)];
  const own = await issueCertificate(authority, { name: 'host', addresses });
  await mkdir(join(folder, 'tls'));
  await Promise.all([
    writeFile(join(folder, 'tls/authority.pem'), authority.certificate),
    writeFile(join(folder, 'tls/host.pem'), own.certificate),
    writeFile(join(folder, 'tls/host-key.pem'), own.privateKey, { mode: 0o600 }),
  ]);
  tls = { ca: authority.certificate, ...own };
  store = connectEtcd({ endpoints: [clientUrlOf(addressOf(1))], tls, log: silentLogger() });
});

after(async () => {
  await store.close();
  await Promise.all([...hosts.values()].map((host) => host[Symbol.asyncDispose]()));
  await network[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

async function startHost(index: number): Promise<SimulatedHost> {
  const host = new SimulatedHost({
    hostId: `h${index}`,
    address: addressOf(index),
    folder,
    tlsFolder: join(folder, 'tls'),
    tls,
    endpoints: [clientUrlOf(addressOf(1))],
    pace,
    etcd: { image, network: await network.addHost(index) },
  });
  hosts.set(index, host);
  if (index === 1) await host.makeCluster();
  await host.start();
  return host;
}

function hostAt(index: number): SimulatedHost {
  const host = hosts.get(index);
  assert.ok(host !== undefined);
  return host;
}

/** Of the fourth host, and no more than that: what was there may go a moment before there is another. */
async function untilOtherData(before: string | undefined): Promise<void> {
  const isOther = async () => {
    const [volume, ...more] = await hostAt(4).volumes();
    return volume !== undefined && volume !== before && more.length === 0;
  };
  await waitFor(isOther, { what: 'the data of another member on h4', deadlineMs: 180_000 });
}

/** What etcd, the keys and every agent's store say once they agree. */
async function untilMembers(indices: readonly number[]): Promise<void> {
  const endpoints = indices.map((index) => clientUrlOf(addressOf(index))).sort();
  store.endpoints = endpoints;
  await using membership = etcdMembership({ endpoints: () => endpoints, tls });
  await waitFor(
    async () => {
      const peers = await membership.list();
      const { entries } = await store.list(memberKey(''));
      assert.deepEqual(
        peers.map(({ name, isLearner }) => `${name}${isLearner ? ' learns' : ''}`).sort(),
        indices.map((index) => `h${index}`),
      );
      assert.deepEqual(
        entries.map(({ key, value }) => `${key.slice(memberKey('').length)} ${JSON.parse(value).state}`),
        indices.map((index) => `h${index} voter`),
      );
      for (const host of hosts.values()) assert.deepEqual([...host.store.endpoints].sort(), endpoints);
      return true;
    },
    { what: `members ${indices.join(', ')}`, deadlineMs: 180_000, intervalMs: 100 },
  );
}

test('the third host makes one member three, and every agent knows them, after a boot as well', async () => {
  await startHost(1);
  await store.transact({ then: [{ put: etcdImageKey, value: '"etcd"' }] });
  await untilMembers([1]);
  await startHost(2);
  await startHost(3);
  await untilMembers([1, 2, 3]);
  const configured = ['https://198.51.100.1:2379'];
  const known = await waitFor(
    async () => {
      const endpoints = await knownEndpoints(join(folder, 'h2'), configured);
      return endpoints.length === 4 && endpoints;
    },
    { what: 'the endpoints on the disk', deadlineMs: 30_000 },
  );
  assert.deepEqual(known, [...[1, 2, 3].map((index) => clientUrlOf(addressOf(index))).sort(), ...configured]);
});

test('a host that leaves is replaced by another, while the leading agent stops and etcd loses its leader', async () => {
  await startHost(4);
  await hostAt(3).leave();
  const leading = await store.get('/flynn/cluster/leader');
  const leader = [...hosts.values()].find(({ hostId }) => leading?.value.includes(`"${hostId}"`));
  await leader?.stopAgent();
  const first = await waitFor(
    async () => {
      for (const host of [hostAt(1), hostAt(2)]) if (await host.isLeader()) return host;
      // The one that left may lead for a moment longer.
      return (await hostAt(3).isLeader()) ? hostAt(1) : undefined;
    },
    { what: 'a leader of etcd', deadlineMs: 60_000 },
  );
  await first.crashMember();
  if (leader !== undefined) await leader.startAgent();
  await untilMembers([1, 2, 4]);
  await waitFor(async () => (await hostAt(4).volumes()).length === 1, { what: 'one volume', deadlineMs: 30_000 });
});

test('a host that comes back without its disk becomes a member anew, with other data', async () => {
  const [before] = await hostAt(4).volumes();
  await store.transact({ then: [{ put: '/kept', value: '"yes"' }] });
  await hostAt(4).wipe();
  await hostAt(4).startAgent();
  await untilOtherData(before);
  await untilMembers([1, 2, 4]);
  assert.equal((await store.get('/kept'))?.value, '"yes"');
});

test('a member whose data is lost while its agent runs is another one from then on', async () => {
  const [before] = await hostAt(4).volumes();
  await hostAt(4).loseData();
  await untilOtherData(before);
  await untilMembers([1, 2, 4]);
  assert.equal((await store.get('/kept'))?.value, '"yes"');
});

test('the data that a member runs with stays, whatever its key says of it', async () => {
  const [before, { looks }] = [await hostAt(4).volumes(), hostAt(4)];
  const value = JSON.stringify({ address: addressOf(4), state: 'voter' });
  await store.transact({ then: [{ put: memberKey('h4'), value }] });
  await waitFor(() => hostAt(4).looks > looks, { what: 'its agent to have heard of it', deadlineMs: 30_000 });
  assert.deepEqual(await hostAt(4).volumes(), before);
});

test('a member that does not start any more is replaced on request, where the others are a majority', async () => {
  const [before] = await hostAt(4).volumes();
  await hostAt(4).breakMember();
  const said: string[] = [];
  const signal = AbortSignal.timeout(180_000);
  const replace = (hostId: string) => replaceMember(store, hostId, { tls, report: (line) => said.push(line), signal });
  await assert.rejects(replace('h9'), { code: 'not_found' });
  await assert.rejects(replace('h1'), {
    code: 'conflict',
    message: new RegExp(`${addressOf(4)}:2379 would be missing`),
  });
  await replace('h4');
  // What the former one had goes by itself.
  await untilOtherData(before);
  assert.match(said.join(), /is given up/);
  await untilMembers([1, 2, 4]);
  assert.equal((await store.get('/kept'))?.value, '"yes"');
});

test('a member whose data differs is replaced on request, while etcd takes no writes for it', async () => {
  const [before] = await hostAt(4).volumes();
  await using membership = etcdMembership({ endpoints: () => store.endpoints, tls });
  const id = (await membership.list()).find(({ name }) => name === 'h4')?.id;
  const members = new EtcdMembers([clientUrlOf(addressOf(1))], tls);
  // As the leader raises it when what it compares differs.
  await members.current.client.maintenance.alarm({ action: 'Activate', alarm: 'Corrupt', memberID: id ?? '' });
  members.close();
  const write = () => store.transact({ then: [{ put: '/written', value: 'yes' }] });
  await waitFor(
    () =>
      write().then(
        () => false,
        () => true,
      ),
    { what: 'writes to be refused', deadlineMs: 60_000 },
  );
  const signal = AbortSignal.timeout(180_000);
  const said: string[] = [];
  const replace = (hostId: string) => replaceMember(store, hostId, { tls, report: (line) => said.push(line), signal });
  await assert.rejects(replace('h2'), { code: 'conflict', message: /the member on h4 differs .* type the same there/ });
  assert.equal(await replace('h4'), 'this host');
  assert.match(said.join(), /is taken out of etcd, which takes writes again/);
  await write();
  await untilOtherData(before);
  await untilMembers([1, 2, 4]);
  assert.equal((await store.get('/kept'))?.value, '"yes"');
});

test('a member whose host leaves goes on as long as there is no majority without it', async (t) => {
  await hostAt(2).breakMember();
  await hostAt(4).leave();
  for (let round = 0; round < 10; round += 1) {
    const write = () => store.transact({ then: [{ put: '/kept', value: '"yes"' }] });
    await retry(write, { what: 'a write', deadlineMs: 60_000 });
    assert.ok((await store.get(memberKey('h4'))) !== undefined, 'etcd would be told to go on without it');
    await pause(pace.idleMs, t.signal);
  }
  await hostAt(2).crashMember();
});

test('with two hosts left there is one member, and it has everything', async () => {
  await untilMembers([1]);
  assert.equal((await store.get('/kept'))?.value, '"yes"');
  const alone = { tls, report: () => undefined, signal: AbortSignal.timeout(60_000) };
  await assert.rejects(replaceMember(store, 'h1', alone), { code: 'conflict', message: /there is no other/ });
});

test('of two hosts the one with the only member leaves, and the other goes on with everything', async () => {
  await hostAt(1).leave();
  await untilMembers([2]);
  assert.equal((await store.get('/kept'))?.value, '"yes"');
});
