import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Clock, fakeClock, systemClock } from '@flynn/kit/clock';
import { type ErrorCode, FlynnError, hasCode } from '@flynn/kit/errors';
import { describeStorage } from './conformance.ts';
import { describeReplica } from './replica-conformance.ts';
import { type Peer, ReplicatedStorage } from './replicated.ts';
import { MemoryReplica, chunks, digestOf, overNetwork, textOf } from './testing.ts';

describeReplica('copies in memory', async () => new MemoryReplica({ now: () => Date.now() }));

function stores(count: number, clock: Clock = systemClock) {
  const replicas = Array.from({ length: count }, () => new MemoryReplica({ now: () => clock.now() }));
  const away = new Set<number>();
  const forgotten = new Set<number>();
  const missing: string[] = [];
  const peersOf = (index: number): Peer[] =>
    replicas.flatMap((replica, other) =>
      other === index || forgotten.has(other)
        ? []
        : [{ host: `h${other}`, replica: overNetwork(replica, () => away.has(other)) }],
    );
  const storages = replicas.map(
    (own, index) =>
      new ReplicatedStorage({ own, peers: () => peersOf(index), clock, onMissing: (digest) => missing.push(digest) }),
  );
  const at = (index: number) => {
    const [replica, storage] = [replicas[index], storages[index]];
    assert.ok(replica && storage);
    return { replica, storage };
  };
  const holders = (digest: string) => replicas.filter(({ blobs }) => blobs.has(digest)).length;
  return { at, away, forgotten, holders, missing, replicas };
}

for (const count of [2, 3]) {
  describeStorage(`storage over ${count} stores`, async () => {
    const { at, replicas } = stores(count);
    return {
      storage: at(0).storage,
      async age(digest, ms) {
        for (const { blobs } of replicas) {
          const blob = blobs.get(digest);
          if (blob !== undefined) blob.usedAt = Date.now() - ms;
        }
      },
    };
  });
}

const fails = (promise: Promise<unknown>, code: ErrorCode) => assert.rejects(promise, (error) => hasCode(error, code));

/** What becomes of it once so much time has passed. */
async function after<T>(clock: ReturnType<typeof fakeClock>, ms: number, work: Promise<T>): Promise<T> {
  const ended = work.then(
    () => true,
    () => true,
  );
  for (let left = ms; left >= 0; left -= 200) {
    const isOver = await Promise.race([ended, clock.advance(200).then(() => false)]);
    if (isOver) break;
  }
  return work;
}

describe('a store among others', () => {
  test('answers once two have a blob, and sends what they have to none twice', async () => {
    const { at, holders, replicas } = stores(3);
    const { digest } = await at(0).storage.put(chunks('x'), {});
    assert.equal(holders(digest), 2);
    const taken = replicas.map(({ blobs }) => blobs.get(digest)?.bytes);
    await at(0).storage.put(chunks('x'), {});
    assert.equal(replicas[1]?.blobs.get(digest)?.bytes, taken[1]);
    assert.equal(holders(digest), 2);
  });

  test('alone it answers with one copy', async () => {
    const { at, holders } = stores(1);
    assert.equal(holders((await at(0).storage.put(chunks('x'), {})).digest), 1);
  });

  test('any of them gives what another has, and takes it over', async () => {
    const { at, missing } = stores(3);
    const { digest } = await at(0).storage.put(chunks('precious'), {});
    const { sizeBytes, body } = await at(2).storage.open(digest, { from: 3 });
    assert.deepEqual([sizeBytes, await textOf(body)], [8, 'cious']);
    assert.deepEqual(missing, [digest]);
    assert.deepEqual(await at(2).storage.stat(digest), { digest, sizeBytes: 8 });
    assert.deepEqual(
      (await at(2).storage.list({ after: '', limit: 10 })).map((blob) => blob.digest),
      [digest],
    );
  });

  test('a second copy waits for a store that is away until discovery forgets it', async () => {
    const clock = fakeClock(1_000);
    const { at, away, forgotten, holders } = stores(2, clock);
    away.add(1);
    const put = at(0).storage.put(chunks('x'), {});
    await clock.advance(5_000);
    forgotten.add(1);
    const { digest } = await after(clock, 1_000, put);
    assert.equal(holders(digest), 1);
  });

  test('while another is away and not forgotten, nothing is said to be stored or not to be there', async () => {
    const clock = fakeClock(1_000);
    const { at, away } = stores(2, clock);
    away.add(1);
    const { storage } = at(0);
    const tried: Promise<unknown>[] = [
      storage.put(chunks('x'), {}),
      storage.stat(digestOf('y')),
      storage.getName('a'),
      storage.list({ after: '', limit: 1 }),
      storage.remove(digestOf('y')),
    ];
    await Promise.all(tried.map((work) => fails(after(clock, 40_000, work), 'unavailable')));
    await fails(storage.open(digestOf('y')), 'unavailable');
  });

  test('what it has it gives while all others are away', async () => {
    const { at, away } = stores(3);
    const { digest } = await at(0).storage.put(chunks('x'), {});
    away.add(1).add(2);
    assert.equal(await textOf((await at(0).storage.open(digest)).body), 'x');
  });

  test('before discovery has said who is there, it gives what it has and takes nothing', async () => {
    const clock = fakeClock(1_000);
    const own = new MemoryReplica({ now: () => clock.now() });
    const storage = new ReplicatedStorage({ own, peers: () => undefined, clock });
    const { digest } = await own.put(chunks('x'), {});
    assert.equal(await textOf((await storage.open(digest)).body), 'x');
    await fails(after(clock, 40_000, storage.put(chunks('y'), {})), 'unavailable');
  });

  test('a use at one store keeps a blob from being removed through another', async () => {
    const { at, replicas } = stores(3);
    const { digest } = await at(0).storage.put(chunks('x'), {});
    const unusedSince = Date.now() - 3_600_000;
    for (const { blobs } of replicas) for (const blob of blobs.values()) blob.usedAt = unusedSince - 1;
    await at(1).replica.use(digest, Date.now());
    await fails(at(2).storage.remove(digest, { unusedSince }), 'conflict');
    assert.ok(at(0).replica.blobs.has(digest));
  });

  test('what is removed is removed everywhere, and remembered where it was not', async () => {
    const { at, holders, replicas } = stores(3);
    const { digest } = await at(0).storage.put(chunks('x'), {});
    await at(2).storage.remove(digest);
    assert.equal(holders(digest), 0);
    assert.ok(replicas.every(({ removed }) => removed.has(digest)));
    await at(1).storage.put(chunks('x'), {});
    assert.equal(holders(digest), 2);
  });

  test('a name that was pointed again at one store is so at all, whatever their clocks say', async () => {
    const clock = fakeClock(10_000);
    const early = fakeClock(1_000);
    const [own, other] = [clock, early].map((one) => new MemoryReplica({ now: () => one.now() }));
    assert.ok(own && other);
    const first = new ReplicatedStorage({ own, peers: () => [{ host: 'b', replica: other }], clock });
    const second = new ReplicatedStorage({ own: other, peers: () => [{ host: 'a', replica: own }], clock: early });
    const [one, two] = [await first.put(chunks('1'), {}), await first.put(chunks('2'), {})];
    await first.putName('a', one.digest);
    await second.putName('a', two.digest);
    assert.deepEqual(await first.getName('a'), two);
    await second.removeName('a');
    await fails(first.getName('a'), 'not_found');
  });

  test('an upload another store has no room for is refused, not tried for ever', async () => {
    const own = new MemoryReplica({ now: () => Date.now() });
    const full = overNetwork(new MemoryReplica({ now: () => Date.now() }), () => false);
    full.copy = async () => {
      throw new FlynnError('exhausted', 'no room');
    };
    const storage = new ReplicatedStorage({ own, peers: () => [{ host: 'b', replica: full }], clock: systemClock });
    await fails(storage.put(chunks('x'), {}), 'exhausted');
  });
});
