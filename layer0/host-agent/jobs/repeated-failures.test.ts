import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RepeatedFailures } from './repeated-failures.ts';

const seconds = (count: number) => Array.from({ length: count }, (_, at) => at * 1_000);

test('what fails each second is told once, then after pauses that double up to an hour', () => {
  const failures = new RepeatedFailures();
  const told = seconds(12_000).filter((at) => failures.failed('j1', 'remove: busy', at) !== undefined);
  assert.deepEqual(
    told.map((at) => at / 60_000),
    [0, 1, 3, 7, 15, 31, 63, 123, 183],
  );
});

test('another failure of the same job, another job, or a failure after a success is told at once', () => {
  const failures = new RepeatedFailures();
  assert.equal(failures.failed('j1', 'remove: busy', 0), 1);
  assert.equal(failures.failed('j1', 'remove: busy', 1_000), undefined);
  assert.equal(failures.failed('j2', 'remove: busy', 1_000), 1);
  assert.equal(failures.failed('j1', 'remove: the engine is away', 2_000), 1);
  assert.equal(failures.failed('j1', 'remove: the engine is away', 62_000), 2, 'with how often it has failed');
  failures.succeeded('j1');
  assert.equal(failures.failed('j1', 'remove: the engine is away', 63_000), 1);
});
