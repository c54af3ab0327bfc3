import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { encoded, openTestHistory } from './testing.ts';
import { deadlineMs, range, listen, startSyslog, startDrains, drain } from './drain-fixture.ts';

test('a drain that takes nothing costs neither memory nor the other drains anything', async (t) => {
  await using env = await openTestHistory({ limits: { bytes: 1e8, segmentBytes: 1e7, totalBytes: 1e9 } });
  const stalled = createTcpServer((socket) => socket.on('error', () => {}).pause());
  const port = await listen(stalled);
  t.after(() => stalled.close());
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  await drains.add(drain({ id: 'stalled', url: `syslog+tcp://127.0.0.1:${port}` }));
  await drains.add(drain({ id: 'good', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  const message = 'x'.repeat(9_000);
  for (let at = 0; at < 20; at += 1) await env.history.append('a', encoded(at * 100, 100, { message }));
  await waitFor(() => statusOf('good').sent === 2_000, { what: 'the good one to have it all', deadlineMs });
  assert.ok(statusOf('stalled').waiting > 0);
  await drains.close();
});

test('however many drains take nothing, so many hold lines at once, and the others get theirs', async (t) => {
  await using env = await openTestHistory();
  const counts = { large: 2, keptForQuick: 1, little: 4, failing: 2 };
  const { drains, statusOf } = await startDrains(t, env, { places: { apps: counts, admins: counts } });
  let held = 0;
  let most = 0;
  const hanging = createHttpServer((request) => {
    held += 1;
    most = Math.max(most, held);
    request.socket.once('close', () => (held -= 1));
  });
  const port = await listen(hanging);
  t.after(() => {
    hanging.closeAllConnections();
    hanging.close();
  });
  const server = await startSyslog(t);
  // Who takes nothing is given up after a while, here a shorter one.
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => timeout(ms === 30_000 ? 300 : ms));
  const count = 30;
  for (let at = 0; at < count; at += 1) await drains.add(drain({ id: `h${at}`, url: `http://127.0.0.1:${port}/` }));
  await drains.add(drain({ id: 'good', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  await env.history.append('a', encoded(0, 5));
  await waitFor(() => statusOf('good').sent === 5, { what: 'the good one to have its lines', deadlineMs });
  const failing = () => drains.status.filter(({ error }) => error !== undefined).length;
  await waitFor(() => failing() === count, { what: 'the others to be given up', deadlineMs });
  await env.history.append('a', encoded(5, 5));
  await waitFor(() => statusOf('good').sent === 10, { what: 'the next lines', deadlineMs });
  // A connection that is given up is closed here a moment later than there.
  assert.ok(most <= 16, `${most} at once`);
  await drains.close();
});

test('however many drains are slow, though they do not fail, the others get theirs', async (t) => {
  await using env = await openTestHistory();
  const { drains, statusOf } = await startDrains(t, env);
  let held = 0;
  const slow = createHttpServer(() => void (held += 1));
  const port = await listen(slow);
  t.after(() => {
    slow.closeAllConnections();
    slow.close();
  });
  const server = await startSyslog(t);
  // Nobody is given up for being slow while this goes on.
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => timeout(ms === 30_000 ? 10 * deadlineMs : ms));
  const count = 40;
  for (let at = 0; at < count; at += 1) await drains.add(drain({ id: `s${at}`, url: `http://127.0.0.1:${port}/` }));
  await env.history.append('a', encoded(0, 5));
  await waitFor(() => held === count, { what: 'all of them to be sending', deadlineMs });
  await drains.add(drain({ id: 'good', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  // More than goes at once where others hold what there is room for.
  await env.history.append('b', encoded(5, 1_000));
  await waitFor(() => statusOf('good').sent === 1_000, { what: 'the good one to have its lines', deadlineMs });
  await server.has(1_000);
  assert.deepEqual(server.messages(), range(5, 1_005));
  assert.equal(drains.status.filter(({ error }) => error !== undefined).length, 0);
  await drains.close();
});
