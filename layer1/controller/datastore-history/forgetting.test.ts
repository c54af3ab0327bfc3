/** By which clock is what is too old forgotten? */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startMs } from './history-fixture.ts';
import { clockAt } from './forgetting.ts';

const hourMs = 3_600_000;

test('a clock that leapt is not believed for a day; that it goes on is noted once an hour', () => {
  const known = { clock: { believedMs: startMs } };
  assert.deepEqual(clockAt({}, startMs), known.clock, 'there is nothing to compare it with');
  assert.equal(clockAt(known, startMs + hourMs / 2), known.clock);
  assert.deepEqual(clockAt(known, startMs + hourMs), { believedMs: startMs + hourMs });
  assert.deepEqual(clockAt(known, startMs - 9 * 24 * hourMs), { believedMs: startMs - 9 * 24 * hourMs }, 'put right');
  const clock = clockAt(known, startMs + 200 * hourMs);
  assert.deepEqual(clock, { believedMs: startMs, aheadMs: startMs + 200 * hourMs });
  assert.equal(clockAt({ clock }, startMs + 223 * hourMs), clock);
  assert.deepEqual(clockAt({ clock }, startMs + 224 * hourMs), { believedMs: startMs + 224 * hourMs });
  assert.deepEqual(clockAt({ clock }, startMs + hourMs / 2), { believedMs: startMs + hourMs / 2 }, 'it is right again');
});

test('of a history that an earlier version kept it is known when its blobs were asked after', () => {
  const looked = { atMs: startMs, nextMs: startMs, missing: [] };
  assert.deepEqual(clockAt({ looked }, startMs + hourMs), { believedMs: startMs + hourMs });
  const aheadMs = startMs + 200 * hourMs;
  assert.deepEqual(clockAt({ looked }, aheadMs), { believedMs: startMs, aheadMs });
});
