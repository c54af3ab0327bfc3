import assert from 'node:assert/strict';
import { it } from 'node:test';
import { someJob } from '../world/world-fixture.ts';
import { noteOf } from './job-text.ts';

it('an instance says why it ended, and when it begins again', () => {
  const now = Date.parse('2030-01-31T12:00:00Z');
  assert.equal(noteOf(someJob(), now), undefined);
  assert.equal(
    noteOf(someJob({ lastError: 'it used more memory than its limit' }), now),
    'before: it used more memory than its limit',
  );
  const crashed = someJob({ state: 'crashed', exitCode: 1, nextStartAt: '2030-01-31T12:00:08Z' });
  assert.equal(noteOf(crashed, now), 'exit code 1; starts again in 8 s');
  assert.equal(noteOf({ ...crashed, nextStartAt: '2030-01-31T11:00:00Z' }, now), 'exit code 1');
});
