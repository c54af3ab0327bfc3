import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { calmMs } from './demand.ts';
import { afterFailureMs, keepSized, lookEveryMs } from './sizing.ts';

/** Workers that are as busy as the test says; each has the index as its process id. */
function sized(t: TestContext, options: { count: number; grows?: boolean; shrinks?: 'left' | 'busy' }) {
  const clock = fakeClock();
  let elapsedMs = 0;
  const counted: number[] = [];
  const used: number[] = [];
  const all = {
    count: options.count,
    share: 0,
    grows: options.grows ?? true,
    tries: 0,
    counted,
    get takingPids() {
      return Array.from({ length: all.count }, (_, index) => index);
    },
    async grow() {
      all.tries += 1;
      if (!all.grows) throw new Error('no memory');
      all.count += 1;
    },
    async shrink() {
      all.tries += 1;
      if (options.shrinks === 'busy') return 'busy' as const;
      all.count -= 1;
      return 'left' as const;
    },
    async pass(ms: number) {
      for (let left = ms; left > 0; left -= lookEveryMs) {
        elapsedMs += lookEveryMs;
        for (const pid of all.takingPids) used[pid] = (used[pid] ?? 0) + lookEveryMs * all.share;
        await clock.advance(lookEveryMs);
      }
    },
  };
  const stopping = new AbortController();
  const kept = keepSized(all, {
    range: { least: 1, most: 3 },
    signal: stopping.signal,
    log: silentLogger(),
    onCount: async (count) => void counted.push(count),
    busyMs: (pid) => used[pid] ?? 0,
    elapsedMs: () => elapsedMs,
    clock,
  });
  t.after(async () => {
    stopping.abort();
    await kept;
  });
  return all;
}

test('there are as many workers as there is work for, and every change is told', async (t) => {
  const workers = sized(t, { count: 1 });
  workers.share = 0.8;
  await workers.pass(10_000);
  assert.equal(workers.count, 3);
  workers.share = 0;
  await workers.pass(2 * calmMs + 10_000);
  assert.equal(workers.count, 1);
  assert.deepEqual(workers.counted, [2, 3, 2, 1]);
});

test('one that cannot be started is tried again after a minute', async (t) => {
  const workers = sized(t, { count: 1, grows: false });
  workers.share = 0.8;
  await workers.pass(afterFailureMs / 2);
  assert.equal(workers.tries, 1);
  workers.grows = true;
  await workers.pass(afterFailureMs);
  assert.equal(workers.count, 3);
});

test('one that has something to do stays, and is asked again after as long as it took', async (t) => {
  const workers = sized(t, { count: 2, shrinks: 'busy' });
  await workers.pass(calmMs + 10_000);
  assert.deepEqual([workers.count, workers.tries], [2, 1]);
  await workers.pass(calmMs + 10_000);
  assert.deepEqual([workers.count, workers.tries], [2, 2]);
  assert.deepEqual(workers.counted, []);
});
