import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Comparison } from './comparison.ts';
import { Copying } from './copying.ts';
import { Lacks } from './lacks.ts';
import { paced } from './pace.ts';
import { MemoryReplica, chunks, digestOf, overNetwork } from './testing.ts';
import { Verification } from './verification.ts';

const never = new AbortController().signal;
const dayMs = 24 * 3_600_000;

const until = (isSo: () => boolean | Promise<boolean>) =>
  waitFor(isSo, { what: 'upkeep', deadlineMs: 30_000, intervalMs: 1 });

function setUp({ bytesPerSecond = 1e9 } = {}) {
  const clock = fakeClock(1_000_000);
  const replica = () => new MemoryReplica({ now: () => clock.now() });
  const [own, first, second] = [replica(), replica(), replica()];
  const away = new Set<MemoryReplica>();
  const peers = () =>
    [first, second].map((one, index) => ({ host: `h${index}`, replica: overNetwork(one, () => away.has(one)) }));
  const deps = { own, peers, clock, log: silentLogger() };
  const copying = new Copying(deps, { bytesPerSecond });
  const comparison = new Comparison(deps, copying);
  return {
    clock,
    own,
    first,
    second,
    away,
    copying,
    comparison,
    verification: new Verification(deps, copying, { readsAll: true }),
  };
}

test('a new store takes over every blob and name of the others, with when they were used and what was removed', async () => {
  const { own, first, second, comparison, copying } = setUp();
  const one = await first.put(chunks('1'), {});
  const two = await second.put(chunks('two'), {});
  await second.use(two.digest, two.usedAt + 5);
  await second.point({ name: 'cache/a', digest: two.digest, changedAt: 7 });
  await first.remove({ digest: digestOf('old'), before: 9 });
  await comparison.compare(never);
  const held = [one, { ...two, usedAt: two.usedAt + 5 }];
  assert.deepEqual(
    await own.list({ after: '', limit: 10 }),
    held.toSorted((a, b) => (a.digest < b.digest ? -1 : 1)),
  );
  assert.deepEqual(await own.pointer('cache/a'), { name: 'cache/a', digest: two.digest, changedAt: 7 });
  assert.equal(await own.removedBefore(digestOf('old')), 9);
  assert.deepEqual(copying.counts, { copies: 2, bytes: 4 });
  assert.equal(comparison.missing.told.count, 0);
  assert.equal(comparison.completeMs, 1_000_000);
});

test('what cannot be had is told with since when, and is no longer once it is there', async () => {
  const { clock, own, first, comparison } = setUp();
  const { digest } = await first.put(chunks('precious'), {});
  first.damage(digest);
  await comparison.compare(never);
  await clock.advance(60_000);
  await comparison.compare(never);
  assert.deepEqual(comparison.missing.told, { count: 1, bytes: 8, since: 1_000_000, digests: [digest] });
  assert.equal(own.blobs.size, 0);
  await first.put(chunks('precious'), {});
  await comparison.compare(never);
  assert.deepEqual(comparison.missing.told, { count: 0, bytes: 0, digests: [] });
  assert.ok(own.blobs.has(digest));
});

test('a store that is away holds up no other, and the comparison is not taken for whole', async () => {
  const { own, first, second, away, comparison } = setUp();
  const { digest } = await second.put(chunks('x'), {});
  away.add(first);
  await comparison.compare(never);
  assert.ok(own.blobs.has(digest));
  assert.equal(comparison.completeMs, undefined);
});

test('a blob whose copy at one store is damaged comes from another in the same round', async () => {
  const { own, first, second, comparison } = setUp();
  for (const damaged of [first, second]) {
    const text = damaged === first ? 'one' : 'two';
    const { digest } = await first.put(chunks(text), {});
    await second.put(chunks(text), {});
    damaged.damage(digest);
    assert.equal(await comparison.compare(never), true);
    assert.equal(own.blobs.get(digest)?.bytes.toString(), text);
  }
});

test('a blob that is wanted comes before the next comparison is due', async () => {
  const { clock, own, first, comparison } = setUp();
  const stop = new AbortController();
  const running = comparison.run(stop.signal);
  await clock.advance(1_000);
  const { digest } = await first.put(chunks('x'), {});
  await clock.advance(1_000);
  assert.ok(!own.blobs.has(digest));
  comparison.want(digest);
  await until(() => own.blobs.has(digest));
  const later = await first.put(chunks('y'), {});
  await clock.advance(60_000);
  await until(() => own.blobs.has(later.digest));
  stop.abort();
  await running;
});

test('however long a store copied, it compares itself again a minute later', async () => {
  const { clock, own, first, comparison } = setUp({ bytesPerSecond: 1 });
  const large = await first.put(chunks('x'.repeat(1_000)), {});
  const stop = new AbortController();
  const running = comparison.run(stop.signal);
  const beganMs = clock.now();
  const untilTaken = (digest: string) =>
    until(async () => {
      await clock.advance(5_000);
      return own.blobs.has(digest);
    });
  await untilTaken(large.digest);
  const copiedMs = clock.now();
  assert.ok(copiedMs - beganMs >= 1_000_000, String(copiedMs - beganMs));
  const { digest } = await first.put(chunks('y'), {});
  await untilTaken(digest);
  assert.ok(clock.now() - copiedMs < 150_000, String(clock.now() - copiedMs));
  stop.abort();
  await running;
});

/** Each call answers how long it was between the last two times that something began. */
function gaps(clock: ReturnType<typeof fakeClock>): { begin: () => void; next: () => Promise<number> } {
  const begun: number[] = [];
  return {
    begin: () => void begun.push(clock.now()),
    async next() {
      const before = begun.length;
      await until(async () => {
        await clock.advance(10_000);
        return begun.length > before;
      });
      return (begun.at(-1) ?? 0) - (begun.at(-2) ?? 0);
    },
  };
}

test('what takes long to compare is compared less often, but within an hour', async () => {
  const { clock, first, comparison } = setUp();
  let tookMs = 30_000;
  const { begin, next } = gaps(clock);
  const list = first.list.bind(first);
  first.list = async (page) => {
    begin();
    await clock.sleep(tookMs);
    return list(page);
  };
  const stop = new AbortController();
  const running = comparison.run(stop.signal);
  await next();
  const afterMs = await next();
  assert.ok(afterMs >= 630_000 && afterMs < 800_000, String(afterMs));
  tookMs = 600_000;
  await next();
  const longMs = await next();
  assert.ok(longMs >= 4_200_000 && longMs < 4_400_000, String(longMs));
  stop.abort();
  await clock.advance(tookMs);
  await running;
});

test('a copy that comes to nothing is not tried all the time', async () => {
  const { clock, first, comparison } = setUp({ bytesPerSecond: 100 });
  const { digest } = await first.put(chunks('x'.repeat(10_000)), {});
  first.damage(digest);
  const { begin, next } = gaps(clock);
  const open = first.open.bind(first);
  first.open = (...asked) => {
    begin();
    return open(...asked);
  };
  const stop = new AbortController();
  const running = comparison.run(stop.signal);
  await next();
  const afterMs = await next();
  assert.ok(afterMs >= 2_100_000 && afterMs < 2_300_000, String(afterMs));
  stop.abort();
  await running;
});

test('a blob the disk damaged is replaced from another store, within a day or once somebody reads it', async () => {
  const { clock, own, first, verification } = setUp();
  const { digest } = await own.put(chunks('precious'), {});
  const read = await own.put(chunks('read'), {});
  for (const text of ['precious', 'read']) await first.put(chunks(text), {});
  const stop = new AbortController();
  const running = verification.run(stop.signal);
  own.damage(read.digest);
  verification.onRead(read.digest);
  await until(() => verification.counts.replaced === 1);
  assert.equal(own.blobs.get(read.digest)?.bytes.toString(), 'read');
  assert.deepEqual(verification.replaced.digests, [read.digest]);
  await clock.advance(700_000);
  await until(() => verification.completeMs !== undefined);
  own.damage(digest);
  await clock.advance(dayMs);
  await until(() => verification.counts.replaced === 2);
  assert.deepEqual(verification.replaced.digests, [digest]);
  assert.equal(own.blobs.get(digest)?.bytes.toString(), 'precious');
  stop.abort();
  await running;
});

test('one that no other store has is told, and replaced when one comes that has it', async () => {
  const { own, second, verification } = setUp();
  const { digest } = await own.put(chunks('precious'), {});
  own.damage(digest);
  await verification.verify(never);
  assert.deepEqual(verification.damaged.told, { count: 1, bytes: 8, since: 1_000_000, digests: [digest] });
  const stop = new AbortController();
  const running = verification.run(stop.signal);
  await second.put(chunks('precious'), {});
  verification.retryDamaged();
  await until(() => verification.damaged.told.count === 0);
  assert.equal(own.blobs.get(digest)?.bytes.toString(), 'precious');
  stop.abort();
  await running;
});

test('a damaged blob that is asked for while it is read, and that nobody else has, ends no round; it is read once an hour', async () => {
  const { clock, own, verification } = setUp();
  const { digest } = await own.put(chunks('precious'), {});
  for (const text of ['a', 'b']) await own.put(chunks(text), {});
  own.damage(digest);
  let reads = 0;
  const open = own.open.bind(own);
  own.open = async (asked) => {
    if (asked === digest) {
      reads += 1;
      // As each half minute, however long the reading takes.
      verification.retryDamaged();
    }
    return open(asked);
  };
  for (let look = 0; look < 3; look += 1) await verification.verify(never);
  assert.equal(reads, 1);
  assert.equal(verification.damaged.told.count, 1);
  await clock.advance(3_600_000);
  await verification.verify(never);
  assert.equal(reads, 2);
  // Somebody stored it again.
  await own.put(chunks('precious'), {});
  await clock.advance(3_600_000);
  await verification.verify(never);
  assert.equal(verification.damaged.told.count, 0);
});

test('a clock that is set back an hour stops no comparison', async () => {
  const { clock, own, first, comparison } = setUp();
  const stop = new AbortController();
  const running = comparison.run(stop.signal);
  await until(() => comparison.completeMs !== undefined);
  const now = clock.now.bind(clock);
  clock.now = () => now() - 3_600_000;
  const { digest } = await first.put(chunks('x'), {});
  await until(async () => {
    await clock.advance(1_000);
    return own.blobs.has(digest);
  });
  assert.ok(now() < 1_000_000 + 600_000, `only after ${now() - 1_000_000} ms`);
  stop.abort();
  await running;
});

test('copies are no faster than they may be', async () => {
  const clock = fakeClock(0);
  let sent = 0;
  const reading = (async () => {
    const body = paced(chunks(...Array.from({ length: 10 }, () => Buffer.alloc(100))), {
      bytesPerSecond: 100,
      clock,
      signal: never,
    });
    for await (const chunk of body) sent += chunk.length;
  })();
  await until(() => sent === 100);
  await clock.advance(4_500);
  assert.equal(sent, 500);
  await clock.advance(10_000);
  await reading;
  assert.equal(sent, 1_000);
});

test('of many that are lacked the first few are named', () => {
  const lacks = new Lacks();
  for (let n = 0; n < 20; n += 1) lacks.add({ digest: digestOf(`${n}`), sizeBytes: 2 }, 100 + n);
  const { count, bytes, since, digests } = lacks.told;
  assert.deepEqual([count, bytes, since, digests.length], [20, 40, 100, 5]);
});
