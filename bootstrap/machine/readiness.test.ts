import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Boot, lateParts } from './readiness.ts';

const ready: Boot = { uptimeMs: 20_000, engine: 'up', hasAddress: true, isClockPlausible: true };
const late: Boot = { uptimeMs: 20_000, engine: 'starting', hasAddress: false, isClockPlausible: false };

test('right after a boot what comes by itself is waited for', () => {
  assert.deepEqual(lateParts(ready), []);
  assert.deepEqual(lateParts(late), ['the container engine', 'the network', 'the right time']);
});

test('an engine that nobody starts is not waited for: `up` starts it', () => {
  assert.deepEqual(lateParts({ ...ready, engine: 'none' }), []);
});

test('a machine that has been up for long is as it is, offline or not', () => {
  assert.deepEqual(lateParts({ ...late, uptimeMs: 3_600_000 }), []);
});
