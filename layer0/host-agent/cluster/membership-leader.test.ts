import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys } from '@flynn/scheduler/cell';
import type { EtcdMembership, EtcdPeer } from '@flynn/store/etcd-membership';
import { openMirror } from '@flynn/store/mirror';
import { openTestStore } from '@flynn/store/testing';
import { leaseKey, leasePrefix, leaseSchema } from '../network/lease.ts';
import type { Lease } from '../network/lease.ts';
import { peerUrlOf } from './etcd-resident.ts';
import { memberKey, memberPrefix, memberSchema } from './member-keys.ts';
import { lead } from './membership-leader.ts';

const leaseOf = (index: number): Lease => ({
  hostId: `h${index}`,
  address: `192.0.2.${index}`,
  subnet: `100.100.${index}.0/24`,
  joinedAt: index,
});
const peerOf = (index: number): EtcdPeer => ({
  id: String(index),
  name: `h${index}`,
  peerUrls: [peerUrlOf(`192.0.2.${index}`)],
  clientUrls: [],
  isLearner: false,
});

test('no member is taken away because what says whose it is cannot be read, and what its host said of it stays', async () => {
  await using store = openTestStore();
  const log = silentLogger();
  await using tasks = new TaskGroup();
  const { signal } = tasks;
  let [looks, peers] = [0, [1, 2, 3].map(peerOf)];
  const refuse = () => assert.fail('nothing of it is to be changed');
  const membership: EtcdMembership = {
    async list() {
      looks += 1;
      return peers;
    },
    addLearner: refuse,
    promote: refuse,
    move: refuse,
    async remove(id) {
      peers = peers.filter((peer) => peer.id !== id);
    },
    [Symbol.asyncDispose]: async () => undefined,
  };
  const put = (key: string, json: unknown) => ({ put: key, value: JSON.stringify(json) });
  const readable = put(leaseKey('h2'), leaseOf(2));
  const later = { ...leaseOf(2), subnet: ['100.100.2.0/24', 'fd00::/64'] };
  const said = put(memberKey('h3'), { address: '192.0.2.3', state: 'leaving' });
  await store.transact({
    then: [
      ...[1, 2, 3].map((index) => put(cellKeys.host(`h${index}`), {})),
      ...[1, 3].map((index) => put(leaseKey(`h${index}`), leaseOf(index))),
      put(leaseKey('h2'), later),
      ...[1, 2].map((index) => put(memberKey(`h${index}`), { address: `192.0.2.${index}`, state: 'voter' })),
      said,
    ],
  });
  const options = { store, log, signal };
  const leases = await openMirror({ ...options, prefix: leasePrefix, decode: (json) => leaseSchema.parse(json) });
  const members = await openMirror({ ...options, prefix: memberPrefix, decode: (json) => memberSchema.parse(json) });
  const hosts = await openMirror({ ...options, prefix: cellKeys.hosts, decode: () => true });
  const pace = { leaderTtlSeconds: 10, stepMs: 1, idleMs: 1, catchUpMs: 60_000 };
  const leading = lead(
    { hostId: 'h1', store, openMembership: () => membership, leases, members, hosts, pace, log },
    signal,
  ).catch(() => undefined);
  const untilLooked = async (more: number) => {
    const from = looks;
    await waitFor(() => looks >= from + more, { what: 'a few looks', deadlineMs: 60_000, intervalMs: 1 });
  };
  await untilLooked(5);
  assert.equal(peers.length, 3);
  // What can be read is followed as ever: of h1 the key was deleted, of h2 nothing is said.
  await store.transact({ then: [{ delete: memberKey('h1') }] });
  await waitFor(async () => (await store.get(memberKey('h1'))) !== undefined, {
    what: 'the key of a voter',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  assert.notEqual(await store.get(memberKey('h2')), undefined);
  await leases.reached((await store.transact({ then: [readable] })).revision);
  await untilLooked(5);
  assert.equal(peers.length, 3);
  assert.equal((await store.get(said.put))?.value, said.value);
  // A lease that is gone is another matter: its host left.
  await leases.reached((await store.transact({ then: [{ delete: leaseKey('h2') }] })).revision);
  await waitFor(() => peers.length < 3, { what: 'the member of a host that left to go', deadlineMs: 60_000 });
  assert.ok(!peers.some(({ name }) => name === 'h2'));
  await tasks.stop();
  await leading;
});
