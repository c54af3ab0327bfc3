import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { pollUntil } from './polling.ts';

const soon = { what: 'the end', deadlineMs: 60_000, intervalMs: 1 };

test('what passes by itself is asked again until it is so', async () => {
  const answers = [
    () => Promise.reject(new FlynnError('unavailable', 'it restarts')),
    () => Promise.resolve(undefined),
    () => Promise.reject(new FlynnError('timeout', 'it elects')),
    () => Promise.resolve(false as const),
    () => Promise.reject(new FlynnError('exhausted', 'too many ask')),
    () => Promise.resolve(''),
  ];
  assert.equal(await pollUntil(() => answers.shift()?.() ?? assert.fail('asked once more'), soon), '');
  assert.equal(answers.length, 0);
});

test('what asking again does not change ends it at once', async () => {
  for (const code of ['denied', 'unauthenticated', 'not_found', 'conflict', 'internal'] as const) {
    let asked = 0;
    const refused = pollUntil(() => {
      asked += 1;
      return Promise.reject(new FlynnError(code, 'no'));
    }, soon);
    await assert.rejects(refused, (error) => hasCode(error, code));
    assert.equal(asked, 1, code);
  }
});

test('the deadline names what was waited for, and why the last time', async () => {
  const late = pollUntil(() => Promise.reject(new FlynnError('unavailable', 'it restarts')), {
    ...soon,
    deadlineMs: 20,
  });
  await assert.rejects(
    late,
    (error) => hasCode(error, 'timeout') && error.message.endsWith('for the end: it restarts'),
  );
});
