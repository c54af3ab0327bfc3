import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer as createHttp2Server } from 'node:http2';
import { connect as connectTcp, createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { createLogger } from '@flynn/kit/log';
import { Backend as RealBackend } from './backend.ts';
import type { Driver } from './config.ts';
import { replyOf, request } from './http2/testing.ts';
import { Silence } from './silence.ts';
import { ask, sayRaw, setUp as setUpRouter, settled, startBackend, track } from './testing.ts';
import type { Backend, World } from './testing.ts';

const soon = { deadlineMs: 30_000, intervalMs: 10 };

type Hosts = World & {
  /** As the kernel counts for an address: how often in a row something was sent to it in vain. */
  unanswered: Map<string, number>;
  asked: number;
};

/** No limit of the route's comes before the test's own end. */
async function setUp(t: TestContext, driver?: Driver): Promise<Hosts> {
  const unanswered = new Map<string, number>();
  const seen = { asked: 0 };
  const world = await setUpRouter(t, { firstByteMs: 600_000, idleMs: 600_000 }, driver, {
    unanswered: async (addresses) => {
      seen.asked += 1;
      return new Map([...unanswered].filter(([address]) => addresses.includes(address)));
    },
  });
  return {
    ...world,
    unanswered,
    get asked() {
      return seen.asked;
    },
  };
}

/** Takes everything and says nothing, as one whose host is gone. */
const startSilent = (t: TestContext): Promise<Backend & { heard(): boolean }> => {
  let hasHeard = false;
  const server = createServer((socket) => socket.on('data', () => (hasHeard = true)));
  return track(t, server).then((backend) => ({ ...backend, heard: () => hasHeard }));
};

async function announce({ plane, router }: World, ...backends: Backend[]): Promise<void> {
  for (const { address } of backends) plane.up('web', address);
  await settled(
    router,
    backends.map(({ address }) => address),
  );
}

for (const driver of ['fast', 'http-proxy'] as const) {
  test(`${driver}: what was asked of a host that vanished is asked elsewhere, or refused where that may not be`, async (t) => {
    const world = await setUp(t, driver);
    const { router, port, unanswered } = world;
    const [one, two] = [await startSilent(t), await startSilent(t)];
    await announce(world, one, two);
    const gets = [ask(port), ask(port)];
    const post = ask(port, { method: 'POST', body: Buffer.from('x') });
    await waitFor(() => world.asked > 2 && one.heard() && two.heard(), { what: 'a few looks at the silent', ...soon });
    const fine = await startBackend(t, (_incoming, response) => response.end('fine'));
    await announce(world, one, two, fine);
    // On both, one after the other: a request that was sent to one may be sent again more than once.
    for (const { address } of [one, two]) unanswered.set(address, 4);
    for (const get of gets) assert.equal(await text(await get), 'fine');
    const refused = await post;
    assert.equal(refused.statusCode, 502);
    assert.equal(refused.headers['x-flynn-error'], 'backend-broke');
    await waitFor(() => one.sockets.size + two.sockets.size === 0, { what: 'no connection to be left', ...soon });
    await waitFor(() => router.status().backends.every(({ inFlight }) => inFlight === 0), {
      what: 'the count',
      ...soon,
    });
    // Nobody else waits for them meanwhile.
    for (let i = 0; i < 10; i += 1) assert.equal(await text(await ask(port)), 'fine');
  });

  test(`${driver}: a backend that left is given up sooner, and one that answers its kernel's peers never`, async (t) => {
    const world = await setUp(t, driver);
    const { plane, router, port, unanswered } = world;
    const [gone, slow] = [await startSilent(t), await startSilent(t)];
    await announce(world, gone);
    const post = ask(port, { method: 'POST', body: Buffer.from('x') });
    await waitFor(() => gone.heard(), { what: 'the request', ...soon });
    plane.down('web', gone.address);
    await announce(world, slow);
    const other = ask(port).catch((error: unknown) => error);
    await waitFor(() => slow.heard(), { what: 'the other request', ...soon });
    unanswered.set(gone.address, 3);
    unanswered.set(slow.address, 3);
    assert.equal((await post).headers['x-flynn-error'], 'backend-broke');
    const before = world.asked;
    await waitFor(() => world.asked > before + 1, { what: 'another look', ...soon });
    assert.deepEqual(
      router.status().backends.map(({ address, inFlight }) => [address, inFlight]),
      [[slow.address, 1]],
    );
    unanswered.set(slow.address, 4);
    await other;
  });

  test(`${driver}: upgraded connections and those of TCP routes are cut`, async (t) => {
    const world = await setUp(t, driver);
    const { plane, router, unanswered } = world;
    const port = await freePort();
    plane.setRoute({ id: 't', type: 'tcp', port, service: 'web' });
    let opened = 0;
    const server = createServer((socket) =>
      socket.once('data', (bytes) => {
        opened += 1;
        if (bytes.toString().startsWith('GET')) socket.write(switching);
      }),
    );
    const backend = await track(t, server);
    await announce(world, backend);
    await waitFor(() => sayNothing(port), { what: 'the port', ...soon });
    const upgraded = sayRaw(world.port, upgrade);
    const carried = sayRaw(port, 'hello').catch((error: unknown) => messageOf(error));
    await waitFor(() => opened === 2, { what: 'both to be open', ...soon });
    unanswered.set(backend.address, 4);
    assert.match(await upgraded, /^HTTP\/1.1 101 /);
    assert.match(await carried, /ECONNRESET/);
    await waitFor(() => router.status().backends.every(({ inFlight }) => inFlight === 0), {
      what: 'the count',
      ...soon,
    });
  });
}

test('a look that fails for the moment is told once, and followed by others; without a table nobody looks', async () => {
  const backend = new RealBackend('web', '127.0.0.1:1');
  backend.take(false);
  const said = new PassThrough({ encoding: 'utf8' });
  const stop = new AbortController();
  let looked = 0;
  let code = 'EMFILE';
  const silence = new Silence({
    backends: { all: () => [backend] },
    unanswered: async () => {
      looked += 1;
      if (looked === 3) code = 'ENOENT';
      throw Object.assign(new Error(code), { code });
    },
    clock: { now: () => 0, sleep: () => Promise.resolve() },
    log: createLogger('test', { destination: said }),
  });
  await silence.run(stop.signal);
  assert.equal(looked, 3);
  assert.equal(String(said.read()).match(/not noticed for the moment: EMFILE/g)?.length, 1);
});

const upgrade = `GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n`;
const switching = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n`;

async function sayNothing(port: number): Promise<boolean> {
  const socket = connectTcp(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.destroy();
  return true;
}

for (const protocol of ['http1', 'h2c'] as const) {
  test(`an HTTP/2 client is answered by another ${protocol} backend`, async (t) => {
    const world = await setUp(t);
    const { plane, port, unanswered } = world;
    plane.setRoute({ id: 'r1', domain: 'app.test', http: { protocol } });
    let asked = 0;
    const server = createHttp2Server();
    server.on('stream', () => (asked += 1));
    const gone = protocol === 'http1' ? await startSilent(t) : await track(t, server);
    await announce(world, gone);
    const session = connect(`http://127.0.0.1:${port}`);
    t.after(() => session.destroy());
    const get = replyOf(request(session));
    await waitFor(() => (protocol === 'h2c' ? asked === 1 : gone.sockets.size === 1), { what: 'the request', ...soon });
    const well = createHttp2Server();
    well.on('stream', (stream) => {
      stream.respond({ ':status': 200 });
      stream.end('fine');
    });
    const fine =
      protocol === 'h2c' ? await track(t, well) : await startBackend(t, (_incoming, response) => response.end('fine'));
    await announce(world, gone, fine);
    unanswered.set(gone.address, 4);
    assert.equal((await get).body, 'fine');
  });
}
