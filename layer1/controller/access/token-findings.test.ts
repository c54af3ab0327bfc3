import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestController } from '../testing.ts';
import { tokens } from './api.ts';
import { tokenCheck, tokenFindings } from './token-findings.ts';

const dayMs = 86_400_000;

function tokenOf(lastsDays: number | undefined): Parameters<typeof tokenFindings>[0][number] {
  const expiresAt = lastsDays === undefined ? {} : { expiresAt: new Date(lastsDays * dayMs).toISOString() };
  const spec = { name: 'ci', hash: 'h', role: 'developer' as const, ...expiresAt };
  return { id: 't1', createdAt: new Date(0).toISOString(), spec };
}

test('a token that was made to last is told of a week before its end, and after it', () => {
  const told = (lastsDays: number | undefined, atDays: number) =>
    tokenFindings([tokenOf(lastsDays)], atDays * dayMs).map(({ what }) => what);
  assert.deepEqual(told(90, 82), []);
  assert.deepEqual(told(90, 84), ['it expires at 1970-04-01T00:00:00.000Z']);
  assert.deepEqual(told(90, 91), ['it expired at 1970-04-01T00:00:00.000Z']);
  assert.deepEqual(told(1, 0.9), [], 'a login');
  assert.deepEqual(told(undefined, 10_000), [], 'one without an end');
  assert.match(tokenFindings([tokenOf(90)], 85 * dayMs)[0]?.remedy ?? '', /flynn_t1_….*flynn token revoke t1/);
});

test('doctor asks what there is', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { id } = await world.client.call(tokens.create, { body: { name: 'ci', expiresInMs: 30 * dayMs } });
  const later = { ...world.deps, now: () => Date.now() + 25 * dayMs };
  const found = await tokenCheck(later).find(new AbortController().signal);
  assert.deepEqual(
    found.map(({ subject }) => subject),
    ['token ci'],
  );
  assert.ok(found[0]?.remedy.includes(id));
});
