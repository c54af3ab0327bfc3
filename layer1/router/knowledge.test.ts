import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer, request } from 'node:http';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Routers } from '@flynn/discovery/routers';
import type { Word } from '@flynn/discovery/routers';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Knowledge } from './knowledge.ts';
import { statusHandlers, voiceOf } from './server.ts';
import { ask, setUp, settled, startBackend, track } from './testing.ts';

const { signal } = new AbortController();
const becomes = (knowledge: Knowledge, word: Word, waitMs: number) => knowledge.becomesSo(word, { waitMs, signal });

test('a router says it has a route once it does, in the state that was asked for, and when it has it no more', async () => {
  const knowledge = new Knowledge(() => false);
  const [added, changed, gone] = [
    { routes: [{ id: 'a', revision: 5 }] },
    { routes: [{ id: 'a', revision: 6 }] },
    { routes: [{ id: 'a' }] },
  ];
  assert.equal(knowledge.isSo(gone), false, 'nothing is known yet');
  const waiting = becomes(knowledge, changed, 10_000);
  knowledge.replace([{ id: 'a', revision: 5 }, { id: 'b' }]);
  assert.deepEqual(
    [added, changed, gone].map((word) => knowledge.isSo(word)),
    [true, false, false],
  );
  knowledge.set({ id: 'a', revision: 7 });
  assert.equal(await waiting, true);
  assert.equal(await becomes(knowledge, gone, 1), false);
  knowledge.remove('a');
  assert.equal(await becomes(knowledge, gone, 0), true);
  assert.equal(knowledge.isSo(added), false);
});

test('a router says to whom it sends requests; of a service it does not route there is nothing to wait for', async (t) => {
  const { plane, router } = await setUp(t);
  const { knowledge } = router;
  const word = (more: { up?: string[]; down?: string[] }, service = 'web') => ({ services: [{ service, ...more }] });
  const one = '127.0.0.1-4001';
  assert.equal(knowledge.isSo(word({ up: [one] })), false);
  const waiting = becomes(knowledge, word({ up: [one] }), 10_000);
  plane.up('web', '127.0.0.1:4001');
  assert.equal(await waiting, true);
  assert.deepEqual(
    router.status().backends.map(({ address }) => address),
    ['127.0.0.1:4001'],
  );
  assert.equal(knowledge.isSo(word({ down: [one] })), false);
  const dropped = becomes(knowledge, word({ down: [one] }), 10_000);
  plane.down('web', '127.0.0.1:4001');
  assert.equal(await dropped, true);
  await settled(router, []);
  assert.equal(knowledge.isSo(word({ up: ['x'] }, 'elsewhere')), true);
  plane.setRoute({ id: 'r2', domain: 'b.test', service: 'other', revision: 9 });
  assert.equal(await becomes(knowledge, { routes: [{ id: 'r2', revision: 9 }] }, 10_000), true);
  assert.equal(knowledge.isSo(word({ up: ['x'] }, 'other')), false);
  plane.removeRoute('r2');
  assert.equal(await becomes(knowledge, word({ up: ['x'] }, 'other'), 10_000), true);
});

test('a router says that an instance has ended once it gets nothing more and what it got is answered, WebSockets apart', async (t) => {
  const { plane, router, port } = await setUp(t);
  const { knowledge } = router;
  const held: ServerResponse[] = [];
  const backend = await startBackend(t, (_request, response) => void held.push(response));
  const id = backend.address.replaceAll(':', '-');
  const word = { services: [{ service: 'web', ended: [id] }] };
  assert.equal(knowledge.isSo(word), true, 'it is not there yet');
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  assert.equal(knowledge.isSo(word), false, 'it gets requests');
  const asked = [ask(port, { path: '/a' }), ask(port, { path: '/b' })];
  await waitFor(() => held.length === 2, { what: 'both requests to be there', deadlineMs: 30_000 });
  const ended = becomes(knowledge, word, 60_000);
  plane.down('web', backend.address);
  assert.equal(await becomes(knowledge, { services: [{ service: 'web', down: [id] }] }, 30_000), true);
  held[0]?.end('one');
  assert.equal(await text(await Promise.race(asked)), 'one');
  assert.equal(knowledge.isSo(word), false, 'it has one to answer still');
  held[1]?.end('two');
  assert.equal(await ended, true);
  assert.deepEqual(await Promise.all(asked.map(async (one) => (await one).statusCode)), [200, 200]);
});

test('a WebSocket keeps no instance from having ended', async (t) => {
  const { plane, router, port } = await setUp(t);
  const server = createServer();
  server.on('upgrade', (_request, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
  });
  const backend = await track(t, server);
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  const opening = request({
    port,
    host: '127.0.0.1',
    headers: { host: 'app.test', connection: 'upgrade', upgrade: 'websocket' },
  });
  opening.end();
  const [, socket]: [IncomingMessage, Socket] = (await once(opening, 'upgrade')) as [IncomingMessage, Socket];
  plane.down('web', backend.address);
  const word = { services: [{ service: 'web', ended: [backend.address.replaceAll(':', '-')] }] };
  assert.equal(await becomes(router.knowledge, word, 30_000), true);
  assert.equal(socket.destroyed, false);
  socket.destroy();
});

test('all routers are asked; who does not say so, or cannot be reached, is named; who left is not waited for', async (t) => {
  const log = silentLogger();
  const knowing = [new Knowledge(() => false), new Knowledge(() => false)];
  const servers = await Promise.all(
    knowing.map((knowledge) => {
      const other = () => assert.fail('nobody asks for it');
      const told = { knowledge, status: other, routeStats: other, allStats: other, appCounts: other };
      const handlers = statusHandlers(voiceOf(told));
      return startServer({ name: 'router', handlers, key: 'k', host: '127.0.0.1', port: 0, log });
    }),
  );
  const older = await startServer({ name: 'older', handlers: [], key: 'k', host: '127.0.0.1', port: 0, log });
  const instance = (id: string, port: number) => ({
    id,
    service: 'router',
    address: `127.0.0.1:${port}`,
    attributes: {},
    createdRevision: 1,
  });
  let instances = [...servers, older].map(({ port }, index) => instance(`r${index}`, port));
  await using routers = new Routers({ instances: async () => instances, key: 'k', log });
  t.after(() => Promise.all([...servers, older].map((server) => server.close())));
  const word = { routes: [{ id: 'a', revision: 3 }] };
  for (const knowledge of knowing) knowledge.replace([]);
  const asked = routers.missing(word, { deadlineMs: 50_000, signal });
  for (const knowledge of knowing) knowledge.set({ id: 'a', revision: 3 });
  assert.deepEqual(await asked, []);
  knowing[1]?.remove('a');
  // While the machine stands still others may be late as well, and not each time.
  const becomesMissing = (addresses: (string | undefined)[]) =>
    waitFor(
      async () => {
        const missing = await routers.missing(word, { deadlineMs: 300, signal });
        return isDeepStrictEqual(new Set(missing), new Set(addresses));
      },
      { what: `these alone to be missing: ${addresses.join(', ')}`, deadlineMs: 30_000 },
    );
  await becomesMissing([instances[1]?.address]);
  instances = [...instances, instance('gone', 1)];
  await becomesMissing([instances[1]?.address, '127.0.0.1:1']);
  const waiting = routers.missing(word, { deadlineMs: 50_000, signal });
  instances = instances.slice(0, 1);
  knowing[1]?.set({ id: 'a', revision: 3 });
  assert.deepEqual(await waiting, []);
  instances = [];
  assert.deepEqual(await routers.missing(word, { deadlineMs: 0, signal }), []);
});

test('it is waited for until no router has a request under way; one that cannot be asked, or is older, holds nobody up', async (t) => {
  const log = silentLogger();
  const answering = new Set(['a']);
  const knowledge = new Knowledge((_service, id) => answering.has(id));
  const other = () => assert.fail('nobody asks for it');
  const handlers = statusHandlers(
    voiceOf({ knowledge, status: other, routeStats: other, allStats: other, appCounts: other }),
  );
  const here = { key: 'k', host: '127.0.0.1', port: 0, log };
  const server = await startServer({ name: 'router', handlers, ...here });
  const older = await startServer({ name: 'older', handlers: [], ...here });
  t.after(() => Promise.all([server.close(), older.close()]));
  const instances = [server.port, older.port, 1].map((port) => {
    const address = `127.0.0.1:${port}`;
    return { id: address, service: 'router', address, attributes: {}, createdRevision: 1 };
  });
  await using routers = new Routers({ instances: async () => instances, key: 'k', log });
  const ended = (id: string, deadlineMs: number) =>
    routers.haveEnded([{ service: 'web', ended: [id] }], { deadlineMs, signal });
  assert.equal(await ended('b', 30_000), true);
  assert.equal(await ended('a', 200), false, 'it took longer than it is waited for');
  const waiting = ended('a', 60_000);
  answering.clear();
  knowledge.rested();
  assert.equal(await waiting, true);
});

test('a router that stops answers whoever waits for its word, as things are', async () => {
  const stopping = new AbortController();
  const other = () => assert.fail('nobody asks for it');
  const told = {
    knowledge: new Knowledge(() => false),
    status: other,
    routeStats: other,
    allStats: other,
    appCounts: other,
  };
  const voice = voiceOf(told, stopping.signal);
  const waiting = voice.isSo({ routes: [{ id: 'a', revision: 3 }] }, { waitMs: 3_600_000, signal });
  stopping.abort();
  assert.equal(await waiting, false);
});
