import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePushOptions } from './push-options.ts';

test('a push says how long its build may wait', () => {
  assert.deepEqual(parsePushOptions([]), {});
  assert.deepEqual(parsePushOptions(['expires=60s']), { expiresInMs: 60_000 });
  assert.deepEqual(parsePushOptions(['expires=60s', 'expires=2h']), { expiresInMs: 7_200_000 });
});

test('what is no option, or no time to wait, is refused with how it is written', () => {
  for (const option of ['expires', 'expires=', 'expires=soon', 'expires=0s', 'expires=4000d', 'ci.skip', '', '=']) {
    const said = parsePushOptions([option]);
    assert.ok('refusal' in said, option);
    assert.match(said.refusal.join('\n'), /git push -o expires=10m flynn main/);
  }
});
