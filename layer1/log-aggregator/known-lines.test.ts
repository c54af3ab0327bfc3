import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { test } from 'node:test';
import type { History } from './history.ts';
import { KnownLines, KnownLogs } from './known-lines.ts';
import { encoded, messages, openTestHistory } from './testing.ts';

const again = { mode: 'again', signal: new AbortController().signal } as const;

async function contents(history: History, app: string): Promise<string[]> {
  const log = await history.app(app);
  const block = await log.readFrom(log.start, log.end);
  return block === undefined ? [] : messages([block.bytes]);
}

test('of two who send the same lines at once one has them taken', async () => {
  await using env = await openTestHistory();
  const known = new KnownLogs(env.history);
  const sent = encoded(0, 3);
  const taken = await Promise.all([known.append('a', sent, again), known.append('a', [...sent, ...sent], again)]);
  assert.deepEqual(taken.toSorted(), [0, 3]);
  assert.deepEqual(await contents(env.history, 'a'), ['m0', 'm1', 'm2']);
});

test('what was written since a log was read is known as well, and what could not be written is not', async (t) => {
  await using env = await openTestHistory();
  const { history } = env;
  await history.append('a', encoded(0, 2));
  const known = new KnownLogs(history);
  const read = t.mock.method(KnownLines, 'read');
  await known.share(async () => {
    assert.equal(await known.append('a', encoded(0, 3), again), 1);
    await history.append('a', encoded(3, 2));
    assert.equal(await known.append('a', encoded(0, 6), again), 1);
    const [segment] = (await history.app('a')).segments;
    assert.ok(segment);
    await rename(segment.file, `${segment.file}.away`);
    await assert.rejects(known.append('a', encoded(6, 2), again));
    await rename(`${segment.file}.away`, segment.file);
    assert.equal(await known.append('a', encoded(0, 8), again), 2);
  });
  assert.equal(read.mock.callCount(), 1);
  assert.deepEqual(
    await contents(history, 'a'),
    Array.from({ length: 8 }, (_, at) => `m${at}`),
  );
});

test('what logs end with is held while somebody sends again, and of all of them no more than there is room for', async (t) => {
  await using env = await openTestHistory();
  const { history } = env;
  const apps = ['a', 'b', 'c', 'd'];
  for (const app of apps) await history.append(app, encoded(0, 10));
  const read = t.mock.method(KnownLines, 'read');
  const known = new KnownLogs(history, { maxHeld: 25 });
  await known.share(async () => {
    for (let round = 0; round < 2; round += 1) {
      for (const app of apps) assert.equal(await known.append(app, encoded(0, 10), again), 0);
      assert.equal(known.size, 20);
    }
  });
  assert.equal(read.mock.callCount(), 6, 'two are read once, the others for each');
  assert.equal(known.size, 0);
});

test('who went away before its turn has nothing written', async () => {
  await using env = await openTestHistory();
  const known = new KnownLogs(env.history);
  const gone = AbortSignal.abort();
  await assert.rejects(known.append('a', encoded(0), { mode: 'again', signal: gone }), /went away/);
  assert.deepEqual(await contents(env.history, 'a'), []);
});

test('of a log that is written to all the while its newest lines stay known, and a replay brings nothing older back', async () => {
  await using env = await openTestHistory({ limits: { bytes: 1e8, segmentBytes: 1e7, totalBytes: 1e9 } });
  const { history } = env;
  await history.append('a', encoded(100_000, 10));
  const known = new KnownLogs(history);
  await known.share(async () => {
    assert.equal(await known.append('a', encoded(100_000, 10), again), 0);
    for (let at = 0; at < 7; at += 1) await history.append('a', encoded(110_000 + at * 10_000, 10_000));
    assert.ok(known.size >= 20_000 && known.size <= 40_000, `${known.size} lines are held`);
    assert.equal(await known.append('a', encoded(160_000, 20_001), again), 1);
    const replay = { ...again, mode: 'replay' } as const;
    assert.equal(await known.append('a', [...encoded(100_000, 10), ...encoded(180_001)], replay), 1);
  });
});
