import assert from 'node:assert/strict';
import { test } from 'node:test';
import { processSchema } from '../processes/process.ts';
import { startPatienceMs, stopPatienceMs } from './patience.ts';

const process = (change: object = {}) => processSchema.parse(change);
const checked = (startTimeoutMs?: number) =>
  process({ ports: [{ port: 8080, service: { name: 'x-web', check: { type: 'http', startTimeoutMs } } }] });

test('where processes say nothing of theirs, the app alone says how long', () => {
  assert.equal(startPatienceMs({ web: checked(), worker: process() }), 0);
  assert.equal(stopPatienceMs({ web: process() }), 0);
  assert.equal(stopPatienceMs(undefined), 0);
});

test('who says that a start or an end takes longer is believed, and given a minute more', () => {
  assert.equal(startPatienceMs({ web: checked(180_000), worker: process() }), 240_000);
  const slow = process({ stopTimeoutMs: 300_000, drainMs: 5_000 });
  assert.equal(stopPatienceMs({ web: process(), worker: slow }), 365_000);
});
