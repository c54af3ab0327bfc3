import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AsyncQueue } from '@flynn/kit/queue';
import { withWakes } from './wakes.ts';
import type { Wake } from './wakes.ts';

/** Events by hand, and the wake of whoever reads them. */
function start(options: { isWoken: boolean }) {
  const events = new AsyncQueue<string>();
  const source = { wake: ((): void => assert.fail('nobody listens')) as Wake, isStopped: false };
  const iterator = (async function* () {
    yield* events;
  })();
  const listen = (wake: Wake) => {
    source.wake = wake;
    return () => void (source.isStopped = true);
  };
  return { events, source, all: withWakes(iterator, listen, options) };
}

test('events come in their order, and many wakes are one look', async () => {
  const { events, source, all } = start({ isWoken: false });
  events.push('a');
  assert.equal((await all.next()).value, 'a');
  for (const owner of ['x', 'y', 'x']) source.wake(owner);
  events.push('b');
  const first = new Set([(await all.next()).value, (await all.next()).value]);
  assert.deepEqual(first, new Set(['b', { woken: new Set(['x', 'y']) }]));
  source.wake('x');
  source.wake();
  assert.deepEqual((await all.next()).value, { woken: 'all' });
  source.wake('z');
  assert.deepEqual((await all.next()).value, { woken: new Set(['z']) }, 'what was told is not told again');
  events.end();
  assert.equal((await all.next()).done, true);
  assert.ok(source.isStopped);
});

test('who begins woken looks at all at once; who leaves is woken no more', async () => {
  const { source, all } = start({ isWoken: true });
  assert.deepEqual((await all.next()).value, { woken: 'all' });
  await all.return();
  assert.ok(source.isStopped);
});

test('what ends the events with an error ends it, too', async () => {
  const { events, source, all } = start({ isWoken: false });
  events.push('a');
  events.end(new Error('gone'));
  assert.equal((await all.next()).value, 'a');
  await assert.rejects(all.next(), /gone/);
  assert.ok(source.isStopped);
});
