import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Write, longestMs, outageMs } from './write-probe.ts';

const write = (startedMs: number, endedMs: number, failure?: string): Write => {
  const times = { door: 'a', startedMs, endedMs };
  return failure === undefined ? times : { ...times, failure };
};

test('the outage is the longest time between two changes that were answered, in whichever order they were sent', () => {
  assert.equal(outageMs([]), 0);
  assert.equal(outageMs([write(0, 5)]), 0);
  const writes = [
    write(0, 10),
    write(250, 2_900),
    write(500, 600),
    write(750, 1_800, 'unavailable'),
    write(1_000, 2_500),
  ];
  assert.equal(outageMs(writes), 2_500 - 600);
});

test('the longest wait is also of those who were told that it failed', () => {
  assert.equal(longestMs([]), 0);
  assert.equal(longestMs([write(0, 10), write(250, 4_250, 'timeout'), write(500, 600)]), 4_000);
});
