import assert from 'node:assert/strict';
import { test } from 'node:test';
import { leaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { FlynnError } from '@flynn/kit/errors';
import { cellKeys } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { awayOf, hostsOf, isOf, lacksBundle, notRunning, uploadMs } from './host-move.ts';

test('a host is whole when all that ran on it runs; what was taken from it meanwhile is not missed', () => {
  const before = new Set(['a', 'b', 'c', 'd', 'e']);
  const wanted = new Set(['a', 'b', 'd', 'new']);
  const now = [
    { id: 'a', state: 'running' },
    { id: 'b', state: 'crashed' },
    // Somebody stops one that the cell has there; another is scaled down, and has two minutes to end.
    { id: 'd', state: 'stopping' },
    { id: 'e', state: 'stopping' },
    { id: 'new', state: 'starting' },
  ];
  assert.deepEqual(notRunning(before, now, wanted), [
    { id: 'b', isEnding: false },
    { id: 'd', isEnding: true },
  ]);
  assert.deepEqual(notRunning(before, [{ id: 'a', state: 'running' }], wanted), []);
});

test('a bundle goes to hosts that do not have its files, or do not say, in a time that is enough for a slow link', async () => {
  const lacks = (room: { digests?: Record<string, string> } | undefined) =>
    lacksBundle(async () => room, '1.1.0', { listDigest: 'abc' });
  assert.equal(await lacks({ digests: { '1.0.0': 'def', '1.1.0': 'abc' } }), false);
  assert.ok(await lacks({ digests: { '1.1.0': 'def' } }), 'the same version of other files');
  assert.ok(await lacks({ digests: { '1.0.0': 'abc' } }));
  assert.ok(await lacks({}), 'an agent of old');
  assert.ok(await lacks(undefined));
  const busy = async () => {
    throw new FlynnError('timeout', 'no answer within 10 s');
  };
  assert.ok(await lacksBundle(busy, '1.1.0', { listDigest: 'abc' }), 'it is no reason to go back');
  const minutes = (bytes: number) => uploadMs({ bytes }) / 60_000;
  assert.equal(minutes(0), 15);
  assert.equal(minutes(300e6), 55);
});

test('a host is of a version when nothing that was to be done for it failed, is under way or being undone', () => {
  const of = (agent: string, refresh: Parameters<typeof isOf>[1]['refresh']) => isOf('1.1.0', { agent, refresh });
  assert.ok(of('1.1.0', { state: 'done' }));
  assert.ok(of('1.1.0', { state: 'none' }), 'it was set up as one');
  assert.ok(!of('1.0.0', { state: 'none' }));
  assert.ok(!of('1.1.0', { state: 'under way' }));
  assert.ok(!of('1.1.0', { state: 'failed', why: 'it was broken off' }), 'its power went after its agent was replaced');
  assert.ok(!of('1.1.0', { state: 'none', becoming: '1.0.0' }), 'it goes back to the one before');
});

test('hosts are moved in the order of their names, and one that is away is known', async () => {
  await using store = createMemoryStore();
  for (const [place, id] of ['h3', 'h1', 'h2'].entries()) {
    const address = `192.0.2.${place + 1}`;
    await leaseSubnet(store, { hostId: id, address, range: '100.100.0.0/16', now: 0 });
    const record = { id, address, apiPort: 1113, capacity: { memoryBytes: 1, cpuMillis: 1 }, startedAt: 1 };
    await store.transact({ then: [{ put: cellKeys.host(id), value: JSON.stringify(record) }] });
  }
  assert.deepEqual(
    (await hostsOf(store)).map(({ id }) => id),
    ['h1', 'h2', 'h3'],
  );
  assert.deepEqual(await awayOf(store), []);
  await store.transact({ then: [{ delete: cellKeys.host('h2') }] });
  assert.deepEqual(await awayOf(store), ['h2']);
});
