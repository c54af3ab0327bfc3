import assert from 'node:assert/strict';
import { test } from 'node:test';
import { processSchema } from '../process.ts';
import { stepPatienceMs, stopPatienceMs } from './patience.ts';

const process = (change: object = {}) => processSchema.parse(change);
const checked = (startTimeoutMs?: number) =>
  process({ ports: [{ port: 8080, service: { name: 'x-web', check: { type: 'http', startTimeoutMs } } }] });

test('a step is given the time of the app, however short, where its processes say nothing of theirs', () => {
  assert.equal(stepPatienceMs(10_000, { web: checked(), worker: process() }, { web: process() }), 10_000);
  assert.equal(stopPatienceMs({ web: process() }), 0);
  assert.equal(stopPatienceMs(undefined), 0);
});

test('who says that a start or an end takes longer is believed, and given a minute more', () => {
  assert.equal(stepPatienceMs(120_000, { web: checked(180_000) }, undefined), 240_000);
  const slow = { worker: process({ stopTimeoutMs: 300_000, drainMs: 5_000 }) };
  assert.equal(stepPatienceMs(120_000, { worker: process() }, slow), 365_000);
  assert.equal(stepPatienceMs(120_000, slow, { worker: process() }), 120_000, 'of the old one, which has to end');
  assert.equal(stopPatienceMs(slow), 365_000);
});
