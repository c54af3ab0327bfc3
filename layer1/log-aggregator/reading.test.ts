import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLines } from './reading.ts';
import type { Reading } from './reading.ts';
import { encoded, messages, openTestHistory, parsed, testLimits } from './testing.ts';

function reading(changes: Partial<Reading> = {}): Reading {
  const { signal } = new AbortController();
  return { filter: {}, follow: false, signal, now: () => 0, beatMs: 60_000, ...changes };
}

test('a follower that stops reading holds one window, and is told how many lines it missed', async (t) => {
  await using env = await openTestHistory({
    limits: { ...testLimits, bytes: 1e8 },
    window: { entries: 100, bytes: 1e6 },
  });
  const log = await env.history.app('a');
  const leaving = new AbortController();
  t.after(() => leaving.abort());
  const slow = readLines(log, reading({ follow: true, signal: leaving.signal }));
  const first = slow.next();
  await log.append(encoded(0));
  assert.equal((await messages([(await first).value ?? Buffer.of()]))[0], 'm0');
  for (let at = 1; at < 5_000; at += 7) await log.append(encoded(at, 7));
  const rest: string[] = [];
  let missed = 0;
  let next = 1;
  while (next <= 5_005) {
    const { value } = await slow.next();
    for (const { jobId, message } of await parsed([value ?? Buffer.of()])) {
      if (jobId === '') {
        const [, count] = /^(\d+) lines were left out here/.exec(message) ?? [];
        missed += Number(count);
        next += Number(count);
      } else {
        assert.equal(message, `m${next}`);
        next += 1;
        rest.push(message);
      }
    }
  }
  assert.ok(missed > 4_700 && rest.length <= 200, `${missed} missed, ${rest.length} told`);
  leaving.abort();
  assert.equal((await slow.next()).done, true);
  assert.equal(log.followers, 0);
});

test('a reader of what is deleted under it is told so and goes on', async () => {
  await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes: 1_000 } });
  const log = await env.history.app('a');
  for (let at = 0; at < 100; at += 1) await log.append(encoded(at));
  const slow = readLines(log, reading());
  const first = await messages([(await slow.next()).value ?? Buffer.of()]);
  for (const _ of Array.from({ length: 3 })) await log.dropOldest();
  const rest = await messages(slow);
  const [, missing] = /^(\d+) lines were deleted/.exec(rest[0] ?? '') ?? [];
  assert.equal(first.length + Number(missing) + rest.length - 1, 100);
  assert.equal(rest.at(-1), 'm99');
});
