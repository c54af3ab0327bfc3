/** A few seconds of the storm; storm.ts goes on for longer. What is thrown in a callback fails the test: it would end a router. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { storm } from './storm-fixture.ts';

const seed = 20_261_127;
const longMs = 15_000;

test(`hostile clients before hostile backends, over every protocol, end nothing but themselves (seed ${seed})`, async (t) => {
  const endsMs = performance.now() + longMs;
  const visits = await storm(t, { seed, isOver: () => performance.now() > endsMs });
  assert.ok(visits > 0);
});
