import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Clock, fakeClock, systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { describeStorage } from './conformance.ts';
import { Moving } from './moving.ts';
import { describeReplica } from './replica-conformance.ts';
import { ReplicatedStorage } from './replicated.ts';
import { MemoryReplica, chunks, digestOf, textOf } from './testing.ts';

function setUp(clock: Clock = systemClock) {
  const now = () => clock.now();
  const [to, from] = [new MemoryReplica({ now }), new MemoryReplica({ now })];
  const moved = { times: 0 };
  const moving = new Moving({
    to,
    from,
    names: { to: 'the new one', from: 'the old one' },
    clock,
    log: silentLogger(),
    bytesPerSecond: 1e9,
    onMoved: async () => {
      moved.times += 1;
    },
  });
  return { to, from, moving, moved };
}

describeReplica('copies on their way elsewhere', async () => setUp().moving);

describeStorage('storage on its way elsewhere', async () => {
  const { to, from, moving } = setUp();
  return {
    storage: new ReplicatedStorage({ own: moving, peers: () => [], clock: systemClock }),
    async age(digest, ms) {
      for (const blob of [to.blobs.get(digest), from.blobs.get(digest)]) {
        if (blob !== undefined) blob.usedAt = Date.now() - ms;
      }
    },
  };
});

test('what is in the old place is served, used and removed until it is in the new one, and what comes is there at once', async () => {
  const { to, from, moving } = setUp();
  const [old, used, unused] = [
    await from.copy({ digest: digestOf('old'), usedAt: 1_000 }, chunks('old')),
    await from.copy({ digest: digestOf('used'), usedAt: 1_000 }, chunks('used')),
    await from.copy({ digest: digestOf('unused'), usedAt: 1_000 }, chunks('unused')),
  ];
  await from.point({ name: 'a', digest: old.digest, changedAt: 1 });
  await from.point({ name: 'b', digest: old.digest, changedAt: 1 });
  assert.equal(await textOf((await moving.open(old.digest)).body), 'old');
  await moving.use(used.digest, 3_000);
  assert.equal(await moving.remove({ digest: used.digest, before: 2_000 }), false);
  assert.equal(await moving.remove({ digest: unused.digest, before: 2_000 }), true);
  await moving.point({ name: 'b', digest: used.digest, changedAt: 2 });
  const { digest } = await moving.put(chunks('new'), {});
  assert.ok(to.blobs.has(digest) && !from.blobs.has(digest));
  const page = { after: '', limit: 10 };
  assert.deepEqual(
    (await moving.list(page)).map((held) => held.digest),
    [old.digest, used.digest, digest].toSorted(),
  );
  assert.deepEqual(
    (await moving.pointers(page)).map((pointer) => pointer.digest),
    [old.digest, used.digest],
  );

  await moving.run(new AbortController().signal);
  assert.equal(moving.left, undefined);
  from.blobs.clear();
  from.names.clear();
  for (const [one, text] of [
    [old.digest, 'old'],
    [used.digest, 'used'],
    [digest, 'new'],
  ] as const)
    assert.equal(await textOf((await moving.open(one)).body), text);
  assert.equal(await moving.find(unused.digest), undefined);
  assert.equal((await moving.pointer('a'))?.digest, old.digest);
  assert.equal((await moving.pointer('b'))?.digest, used.digest);
});

test('the old place is not left while one blob of it could not be moved, nor while the new one does not answer', async () => {
  const clock = fakeClock(1_000_000);
  const { to, from, moving, moved } = setUp(clock);
  const { digest } = await from.put(chunks('precious'), {});
  from.damage(digest);
  const find = to.find.bind(to);
  to.find = async () => {
    throw new FlynnError('unavailable', 'away');
  };
  const running = moving.run(new AbortController().signal);
  await clock.advance(30_000);
  assert.equal(moving.left?.count, 0);
  to.find = find;
  const isTold = async () => {
    await clock.advance(10_000);
    return moving.left?.count === 1;
  };
  await waitFor(isTold, { what: 'the blob to be told', deadlineMs: 60_000, intervalMs: 1 });
  assert.equal(moved.times, 0);
  await assert.rejects(moving.open(digestOf('other')), (error) => hasCode(error, 'not_found'));
  // Put again it is in the new place, and nothing is left in the old one that it has not.
  await moving.put(chunks('precious'), {});
  const isLeft = async () => {
    await clock.advance(10_000);
    return moving.left === undefined;
  };
  await waitFor(isLeft, { what: 'the old place to be left', deadlineMs: 60_000, intervalMs: 1 });
  await running;
  assert.equal(moved.times, 1);
});
