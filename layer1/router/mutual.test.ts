/** To the platform's own parts the router speaks as who it is, and to nobody else who says that they are. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createNetServer } from 'node:net';
import { connect as connectHttp2 } from 'node:http2';
import { Agent, request as httpRequest } from 'node:http';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { type RunningServer, type ServerOptions, handle, startServer } from '@flynn/kit/http-server';
import { RenewedIdentity, appRole } from '@flynn/kit/identity';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { defineRoute } from '@flynn/kit/routes';
import { type Credentials, createAuthority, issueCertificate } from '@flynn/kit/tls';
import { z } from 'zod';
import type { Driver } from './config.ts';
import { replyOf, request as http2Request } from './http2/testing.ts';
import { type World, ask, setUp, settled, startBackend, track } from './testing.ts';

const routes = {
  who: defineRoute({ method: 'GET', path: '/who', response: z.string(), summary: 'who asks' }),
  digest: defineRoute({ method: 'POST', path: '/digest', body: 'stream', response: z.string(), summary: 'of a body' }),
  large: defineRoute({ method: 'GET', path: '/large', response: 'stream', summary: 'more than anybody takes at once' }),
  talk: defineRoute({ method: 'GET', path: '/talk', response: 'upgrade', summary: 'an echo' }),
  name: defineRoute({ method: 'GET', path: '/name', response: 'upgrade', summary: 'who asks, over a new connection' }),
  ticks: defineRoute({ method: 'GET', path: '/ticks', response: 'events', summary: 'two events' }),
} as const;

const large = randomBytes(24 * 1024 ** 2);

async function identityOf(authority: Credentials, app: string): Promise<RenewedIdentity> {
  const role = appRole(app);
  const issued = await issueCertificate(authority, { name: app, role });
  return new RenewedIdentity({ trusted: authority.certificate, ...issued });
}

/** As the controller serves: only to those who show a certificate. */
async function startPart(t: TestContext, identity: RenewedIdentity): Promise<RunningServer & { address: string }> {
  return serve(t, identity, {
    name: 'part',
    handlers: [
      handle(routes.who, async ({ caller }) => caller?.name ?? ''),
      handle(routes.digest, async ({ body }) => digestOf(await buffer(body))),
      handle(routes.large, async () => ({ body: Readable.from([large], { objectMode: false }) })),
      handle(routes.talk, async () => (socket) => void socket.pipe(socket)),
      handle(
        routes.name,
        async ({ caller }) =>
          (socket) =>
            void socket.resume().end(caller?.name),
      ),
      handle(routes.ticks, async () => ticks()),
    ],
    gate: async ({ peer }) => {
      assert.ok(peer, 'nobody comes without a certificate');
      return { caller: { name: peer } };
    },
  });
}

async function serve(
  t: TestContext,
  identity: RenewedIdentity,
  options: Pick<ServerOptions, 'name' | 'handlers' | 'gate'>,
): Promise<RunningServer & { address: string }> {
  const listening = { host: '127.0.0.1', port: 0, headTimeoutMs: 60_000, mutual: identity, log: silentLogger() };
  const server = await startServer({ ...options, ...listening });
  t.after(() => server.close());
  return Object.assign(server, { address: `127.0.0.1:${server.port}` });
}

async function* ticks() {
  yield { event: 'tick', data: 1 };
  yield { event: 'tick', data: 2 };
}

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

type Cluster = World & { authority: Credentials; own: RenewedIdentity; client: HttpClient };

/** A router of a cluster, and a client of whatever is behind it. */
async function openCluster(t: TestContext, driver: Driver): Promise<Cluster> {
  const authority = await createAuthority('test');
  const own = await identityOf(authority, 'router');
  const world = await setUp(t, {}, driver, { identity: own });
  world.plane.setRoute({ id: 'r1', domain: '127.0.0.1' });
  world.plane.setRoute({ id: 'r2', domain: 'app.test' });
  const client = new HttpClient({ baseUrl: world.url, name: 'the part' });
  t.after(() => client.close());
  return { ...world, authority, own, client };
}

async function upAs(world: Cluster, app: string | undefined, address: string): Promise<void> {
  if (app === undefined) world.plane.identities.delete(address);
  else world.plane.identities.set(address, app);
  world.plane.up('web', address);
  await settled(world.router, [address]);
}

for (const driver of ['fast', 'http-proxy'] as const) {
  describe(`the ${driver} front before parts of the platform`, () => {
    test('requests of all kinds go through as the router: calls, bodies, answers, events, upgraded connections', async (t) => {
      const world = await openCluster(t, driver);
      const { client } = world;
      const part = await startPart(t, await identityOf(world.authority, 'controller'));
      await upAs(world, 'controller', part.address);
      assert.equal(await client.call(routes.who, {}), 'flynn:app/router');
      const sent = randomBytes(9 * 1024 ** 2);
      assert.equal(await client.call(routes.digest, { body: sent }), digestOf(sent));
      const told: unknown[] = [];
      const { signal } = new AbortController();
      for await (const event of client.events(routes.ticks, {}, { signal })) told.push(event.data);
      assert.deepEqual(told, [1, 2]);
      const socket = await client.upgrade(routes.talk, {});
      const words = randomBytes(600_000);
      const heard: Buffer[] = [];
      socket.on('data', (piece: Buffer) => heard.push(piece));
      socket.write(words);
      const isBack = () => heard.reduce((sum, { length }) => sum + length, 0) === words.length;
      await waitFor(isBack, { what: 'all to come back', deadlineMs: 60_000, intervalMs: 5 });
      assert.equal(digestOf(Buffer.concat(heard)), digestOf(words));
      socket.end();
      await waitFor(() => world.router.status().backends[0]?.inFlight === 0, { what: 'the end', deadlineMs: 60_000 });
    });

    test('an answer comes whole to a client that takes it slowly', async (t) => {
      const world = await openCluster(t, driver);
      const part = await startPart(t, await identityOf(world.authority, 'controller'));
      await upAs(world, 'controller', part.address);
      const outgoing = httpRequest({ host: '127.0.0.1', port: world.port, path: '/large', agent: new Agent() }).end();
      const [incoming] = await once(outgoing, 'response');
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const piece of incoming) {
        hash.update(piece);
        bytes += piece.length;
        // Others get their turn, so that what is sent meets a full socket again and again.
        if (bytes % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      assert.equal(bytes, large.length);
      assert.equal(hash.digest('hex'), digestOf(large));
    });

    test('who shows another role, or a certificate of somebody else, hears nothing, and the client that nobody is there', async (t) => {
      const world = await openCluster(t, driver);
      const strangers = await createAuthority('strangers');
      const others = [await identityOf(world.authority, 'blobstore'), await identityOf(strangers, 'controller')];
      for (const identity of others) {
        const heard: string[] = [];
        const { address } = await serve(t, identity, {
          name: 'impostor',
          handlers: [handle(routes.who, async ({ requestId }) => String(heard.push(requestId)))],
        });
        await upAs(world, 'controller', address);
        const answer = await ask(world.port, { path: '/who', headers: { authorization: 'Bearer secret' } });
        assert.equal(answer.headers['x-flynn-error'], 'unreachable');
        await assert.rejects(world.client.upgrade(routes.talk, {}));
        assert.deepEqual(heard, []);
        world.plane.down('web', address);
        await settled(world.router, []);
      }
    });

    test('a plain server under the name of a part gets not a byte of a request', async (t) => {
      const world = await openCluster(t, driver);
      const heard: Buffer[] = [];
      const plain = createNetServer((socket) => {
        socket.on('data', (bytes: Buffer) => {
          heard.push(bytes);
          socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
        });
      });
      const backend = await track(t, plain);
      await upAs(world, 'controller', backend.address);
      const answer = await ask(world.port, { headers: { authorization: 'Bearer secret' } });
      assert.equal(answer.headers['x-flynn-error'], 'unreachable');
      assert.ok(heard.length > 0, 'it was asked who it is');
      assert.ok(!Buffer.concat(heard).includes('secret'));
    });

    test('apps are spoken to as ever, beside parts and in the place of one', async (t) => {
      const world = await openCluster(t, driver);
      const app = await startBackend(t, (incoming, response) => response.end(`app ${incoming.url}`));
      await upAs(world, undefined, app.address);
      assert.equal(await text(await ask(world.port, { path: '/a' })), 'app /a');
      // The release before had no certificate, and the next has the same address.
      const part = await startPart(t, await identityOf(world.authority, 'controller'));
      world.plane.down('web', app.address);
      await upAs(world, 'controller', part.address);
      assert.equal(await world.client.call(routes.who, {}), 'flynn:app/router');
    });

    test('a certificate that is renewed is shown on the next connection', async (t) => {
      const world = await openCluster(t, driver);
      const part = await startPart(t, await identityOf(world.authority, 'controller'));
      await upAs(world, 'controller', part.address);
      const shown = async () => text(await world.client.upgrade(routes.name, {}));
      assert.equal(await shown(), 'flynn:app/router');
      world.own.current = (await identityOf(world.authority, 'renewed')).current;
      assert.equal(await shown(), 'flynn:app/renewed');
    });
  });
}

test('an address that becomes a part is spoken to as one from then on, and what was under way ends as it began', async (t) => {
  const world = await openCluster(t, 'fast');
  const part = await startPart(t, await identityOf(world.authority, 'controller'));
  await upAs(world, undefined, part.address);
  assert.equal((await ask(world.port, { path: '/who' })).statusCode, 500, 'in clear it is nobody');
  await upAs(world, 'controller', part.address);
  await waitFor(async () => (await ask(world.port, { path: '/who' })).statusCode === 200, {
    what: 'the router to show who it is',
    deadlineMs: 60_000,
    intervalMs: 20,
  });
});

test("clients of HTTP/2 reach the platform's parts as well", async (t) => {
  const world = await openCluster(t, 'fast');
  const part = await startPart(t, await identityOf(world.authority, 'controller'));
  await upAs(world, 'controller', part.address);
  const session = connectHttp2(world.url);
  const reply = await replyOf(http2Request(session, { ':path': '/who', ':authority': 'app.test' }));
  assert.equal(reply.body, '"flynn:app/router"');
  session.destroy();
});
