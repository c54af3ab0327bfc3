import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { interleaved } from './interleaved.ts';
import { AsyncQueue } from './queue.ts';

test('what comes is told in its order, whoever has it, until all have ended', async () => {
  const [a, b] = [new AsyncQueue<string>(), new AsyncQueue<string>()];
  const told: string[] = [];
  const all = (async () => {
    for await (const one of interleaved(a, b)) told.push(one);
  })();
  for (const [queue, value] of [
    [b, 'b1'],
    [a, 'a1'],
    [b, 'b2'],
    [b, 'b3'],
  ] as const) {
    queue.push(value);
    for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  }
  a.end();
  b.push('b4');
  b.end();
  await all;
  assert.deepEqual(told, ['b1', 'a1', 'b2', 'b3', 'b4']);
});

test('the first error ends it, and whoever is left has their end', async () => {
  const left = Promise.withResolvers<void>();
  async function* endless() {
    try {
      for (let count = 0; ; count += 1) {
        await nextTurn();
        yield count;
      }
    } finally {
      left.resolve();
    }
  }
  async function* failing() {
    await nextTurn();
    yield -1;
    throw new Error('its watch ended');
  }
  await assert.rejects(async () => {
    await Array.fromAsync(interleaved(endless(), failing()));
  }, /its watch ended/);
  await left.promise;
});
