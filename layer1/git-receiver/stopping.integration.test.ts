/** A receiver that stops, with real git and real ssh: what is under way ends, or is cancelled, and nothing stays. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { setUp, startFetch } from './testing.ts';

test('a client that is killed while it is sent a lot leaves nothing running', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  const head = await world.commit({ large: randomBytes(20 * 1024 * 1024) });
  assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
  const client = await startFetch(world, head);
  client.kill('SIGKILL');
  // For what runs it would wait for longer than this test may take.
  await world.stop(600_000);
});

test('stopping waits until a client that is slow has everything', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  // More than may be on the way to it, and not more than waits here for that: its git has ended before it has everything.
  const head = await world.commit({ large: randomBytes(3 * 1024 * 1024) });
  assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
  const client = await startFetch(world, head);
  const ended = once(client, 'exit');
  const stopped = world.stop(60_000);
  await pause(1_000, t.signal);
  client.stdout.resume();
  assert.deepEqual(await ended, [0, null]);
  await stopped;
});

test('stopping lets a push end in its time', { timeout: 180_000 }, async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await setUp(t, () => ({ lines: ['begun', () => gate.promise] }));
  await world.commit({ a: '1' });
  const push = world.git(['push', world.remote(), 'main']);
  await waitFor(() => world.pushes.length === 1, { what: 'a push', deadlineMs: 60_000 });
  const stopped = world.stop(60_000);
  gate.resolve();
  const { code, output } = await push;
  assert.equal(code, 0, output);
  await stopped;
  assert.deepEqual(world.cancelled, []);
});

test(
  'stopping cancels a push that does not end in its time, and nothing of one that has',
  { timeout: 180_000 },
  async (t) => {
    const world = await setUp(t, (index) => ({
      lines: ['begun', () => (index === 0 ? Promise.resolve() : new Promise(() => {}))],
    }));
    await world.commit({ a: '1' });
    assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
    const endless = world.git(['push', world.remote('other'), 'main']);
    await waitFor(() => world.pushes.length === 2, { what: 'another push', deadlineMs: 60_000 });
    const drainMs = 500;
    const beganMs = performance.now();
    const stopped = world.stop(drainMs);
    const cut = await endless;
    assert.notEqual(cut.code, 0);
    await stopped;
    // What is not said by now never is: the process ends. For longer than three seconds it waits for nothing.
    if (performance.now() - beganMs > drainMs + 2_900)
      await waitFor(() => world.cancelled.length === 3, { what: 'all to be cancelled', deadlineMs: 60_000 });
    const { pushId } = world.pushes[1] ?? {};
    assert.deepEqual(world.cancelled, [`deploy-${pushId}`, `release-${pushId}`, `build-${pushId}`]);
    assert.deepEqual((await readdir(join(world.dir, 'repos'))).toSorted(), ['id-app.git', 'id-other.git']);
  },
);
