import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Server, connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { routeSchema } from '@flynn/controller/model';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { Deadlines } from '../http1/deadlines.ts';
import { acceptPlain } from '../proxy-protocol/acceptance.ts';
import { setUp, settled, startBackend, track } from '../testing.ts';
import { TcpRoutes } from './routes.ts';

async function connected(port: number) {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  await once(socket, 'connect');
  return socket;
}

async function listening(port: number): Promise<void> {
  const probe = async () => {
    const socket = await connected(port);
    socket.destroy();
    return true;
  };
  await waitFor(probe, { what: `port ${port}`, deadlineMs: 30_000 });
}

/** Answers only after the client has ended its half, as git does over ssh. */
async function startHalfCloser(t: TestContext) {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    void text(socket)
      .then((all) => socket.end(`got ${all}`))
      .catch(() => socket.destroy());
  });
  return track(t, server);
}

test('a TCP route carries a connection whose halves end one after the other', async (t) => {
  const { plane, router } = await setUp(t);
  const backend = await startHalfCloser(t);
  const gone = await startBackend(t, () => {});
  const port = await freePort();
  plane.up('git', backend.address);
  plane.up('git', gone.address);
  plane.setRoute({ id: 't', type: 'tcp', port, service: 'git' });
  await settled(router, [backend.address, gone.address]);
  await gone.close();
  await listening(port);
  for (let i = 0; i < 8; i += 1) {
    const socket = await connected(port);
    socket.write('hello ');
    socket.end('world');
    assert.equal(await text(socket), 'got hello world');
  }
  await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
  await waitFor(() => router.status().backends.every((each) => each.inFlight === 0), {
    what: 'the count',
    deadlineMs: 30_000,
  });
});

test('whichever side breaks off takes the other with it', async (t) => {
  const { plane, router } = await setUp(t);
  const server = createServer((socket) => {
    socket.resume();
    socket.write('hi');
  });
  const backend = await track(t, server);
  const port = await freePort();
  plane.up('git', backend.address);
  plane.setRoute({ id: 't', type: 'tcp', port, service: 'git' });
  await settled(router, [backend.address]);
  await listening(port);
  const leaving = await connected(port);
  await once(leaving, 'data');
  leaving.resetAndDestroy();
  await waitFor(() => backend.sockets.size === 0, { what: 'the backend to hear of it', deadlineMs: 30_000 });
  const left = await connected(port);
  await once(left, 'data');
  for (const socket of backend.sockets) socket.resetAndDestroy();
  await assert.rejects(once(left, 'end'), /ECONNRESET/);
});

test('a route that goes closes its port, and not the connections over it', async (t) => {
  const { plane, router } = await setUp(t);
  const server = createServer((socket) => void socket.pipe(socket));
  const backend = await track(t, server);
  const port = await freePort();
  plane.up('echo', backend.address);
  plane.setRoute({ id: 't', type: 'tcp', port, service: 'echo' });
  await settled(router, [backend.address]);
  await listening(port);
  const socket = await connected(port);
  socket.write('1');
  await once(socket, 'data');
  plane.removeRoute('t');
  await waitFor(
    () =>
      connected(port).then(
        (open) => {
          open.destroy();
          return false;
        },
        () => true,
      ),
    { what: 'the port to close', deadlineMs: 30_000 },
  );
  socket.write('2');
  assert.equal(String((await once(socket, 'data'))[0]), '2');
  socket.destroy();
});

test('while there is no backend a connection waits for one, with what it has said', async (t) => {
  const { plane, router } = await setUp(t, {}, undefined, { tcpWait: { ms: 120_000, most: 1_000 } });
  const [backend, gone] = [await startHalfCloser(t), await startBackend(t, () => {})];
  const port = await freePort();
  plane.up('git', gone.address);
  plane.setRoute({ id: 't', type: 'tcp', port, service: 'git' });
  await settled(router, [gone.address]);
  await gone.close();
  await listening(port);
  const active = (count: number) =>
    waitFor(() => router.routeStats('t')?.active === count, { what: `${count} connections`, deadlineMs: 30_000 });
  // The one that could not reach it is held like the one for whom there is nobody from the start. So is whoever only
  // looked whether somebody listens.
  const first = await connected(port);
  first.end('hello');
  await active(2);
  plane.down('git', gone.address);
  await settled(router, []);
  const second = await connected(port);
  second.end('world');
  await active(3);
  plane.up('git', backend.address);
  assert.deepEqual(await Promise.all([text(first), text(second)]), ['got hello', 'got world']);
  await active(0);
});

test('beyond so many that wait the next connection is closed, and all are when the route goes', async (t) => {
  const { plane, router } = await setUp(t, {}, undefined, { tcpWait: { ms: 120_000, most: 1 } });
  const port = await freePort();
  plane.setRoute({ id: 't', type: 'tcp', port, service: 'nobody' });
  // The first to get through waits.
  const first = await waitFor(() => connected(port), { what: `port ${port}`, deadlineMs: 30_000 });
  await waitFor(() => router.routeStats('t')?.active === 1, { what: 'the first', deadlineMs: 30_000 });
  assert.equal(await text(await connected(port)), '');
  assert.equal(router.routeStats('t')?.active, 1);
  plane.removeRoute('t');
  assert.equal(await text(first), '');
});

test('without a backend the connection is closed', async (t) => {
  const { plane } = await setUp(t);
  const port = await freePort();
  plane.setRoute({ id: 't', type: 'tcp', port, service: 'nothing' });
  await listening(port);
  const socket = await connected(port);
  assert.equal(await text(socket), '');
});

test('what goes through a TCP route is counted: connections, bytes both ways, those that nobody could take', async (t) => {
  const { plane, router } = await setUp(t);
  const backend = await startHalfCloser(t);
  const [port, empty] = [await freePort(), await freePort()];
  plane.up('git', backend.address);
  plane.setRoute({ id: 't', type: 'tcp', port, service: 'git' });
  plane.setRoute({ id: 'none', type: 'tcp', port: empty, service: 'nobody' });
  await settled(router, [backend.address]);
  const statsOf = (id: string) => router.routeStats(id) ?? assert.fail(`no stats of ${id}`);
  await Promise.all([listening(port), listening(empty)]);
  // Those that looked whether somebody listens are over.
  await waitFor(() => statsOf('t').active === 0 && statsOf('none').active === 0, { what: 'quiet', deadlineMs: 30_000 });
  const before = statsOf('t');
  const socket = await connected(port);
  await waitFor(() => statsOf('t').active === 1, { what: 'the connection', deadlineMs: 30_000 });
  socket.end('hello');
  assert.equal(await text(socket), 'got hello');
  await waitFor(() => statsOf('t').active === 0, { what: 'the end', deadlineMs: 30_000 });
  const after = statsOf('t');
  assert.deepEqual(
    [after.requests - before.requests, after.bytesIn - before.bytesIn, after.bytesOut - before.bytesOut],
    [1, 5, 9],
  );
  assert.deepEqual(
    after.backends.map(({ address }) => address),
    [backend.address],
  );
  assert.deepEqual(Object.keys(statsOf('none').refusals), ['no-backends']);
  assert.deepEqual(
    router
      .allStats()
      .map(({ id }) => id)
      .toSorted(),
    ['none', 't'],
  );
});

test('a port that cannot accept a connection for a moment goes on, and ends no process', async (t) => {
  const port = await freePort();
  const opened = t.mock.method(Server.prototype, 'listen').mock;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const errors: unknown[] = [];
  await using routes = new TcpRoutes({
    backends: { of: async () => [], leaderOf: () => undefined, changed: () => undefined },
    figuresOf: () => undefined,
    accept: acceptPlain,
    counters: { tcpConnections: 0, dialFailures: 0 },
    dialMs: 1_000,
    wait: { ms: 1_000, most: 1 },
    deadlines: new Deadlines(),
    host: '127.0.0.1',
    log: { ...silentLogger(), error: (_: unknown, text?: unknown) => void errors.push(text) },
  });
  const route = {
    id: 't',
    appId: 'a',
    type: 'tcp',
    port,
    service: 'git',
    createdAt: '2026-01-01T00:00:00Z',
    revision: 1,
  };
  routes.listen([routeSchema.parse(route)]);
  const server = opened.calls[0]?.this;
  assert.ok(server instanceof Server);
  await once(server, 'listening');
  // As Node tells of a connection for which there is no file descriptor.
  for (let times = 0; times < 3; times += 1)
    server.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }));
  t.mock.timers.tick(60_000);
  t.mock.timers.reset();
  assert.equal(opened.callCount(), 1);
  assert.equal(errors.length, 1);
  assert.ok(server.listening);
});
