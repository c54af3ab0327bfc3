import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { timed } from './timed.ts';

const part = (deadlineMs: number, lines: string[], quietMs = 5_000) => ({
  what: 'removing containers',
  deadlineMs,
  quietMs,
  report: (line: string) => void lines.push(line),
});

test('what takes a while says so, and what tells by itself is not interrupted', async () => {
  const lines: string[] = [];
  const answer = await timed(part(60_000, lines, 20), async (signal) => {
    while (lines.length < 2) await systemClock.sleep(5, { signal });
    return 7;
  });
  assert.equal(answer, 7);
  assert.match(lines[0] ?? '', /^removing containers: \d+ s so far$/);
  const told: string[] = [];
  await timed(part(60_000, told), async (_signal, report) => report('3 left'));
  assert.deepEqual(told, ['3 left']);
});

test('at its deadline a part ends, whether it heeds the signal or not, and says what was in the way', async () => {
  const isTimeout = (pattern: RegExp) => (error: unknown) =>
    hasCode(error, 'timeout') && pattern.test(error.message) && /Run the same command again/.test(error.message);
  await assert.rejects(
    timed(part(30, []), () => new Promise(() => {})),
    isTimeout(/^removing containers has not ended within 0.03 s\. /),
  );
  const stubborn = async (signal: AbortSignal): Promise<void> => {
    await assert.rejects(systemClock.sleep(60_000, { signal }));
    throw new FlynnError('conflict', 'the engine keeps them');
  };
  await assert.rejects(timed(part(30, []), stubborn), isTimeout(/within 0.03 s \(the engine keeps them\)\. /));
});

test('a failure before the deadline is told as it is', async () => {
  const failing = async (): Promise<void> => {
    throw new FlynnError('denied', 'no');
  };
  await assert.rejects(timed(part(60_000, []), failing), (error) => hasCode(error, 'denied'));
});
