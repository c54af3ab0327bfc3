import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { hasCode } from './errors.ts';
import { roleGate } from './http-gate.ts';
import { HttpClient } from './http-client.ts';
import { type RunningServer, handle, startServer } from './http-server.ts';
import { RenewedIdentity, anyHost, appRole, hostRole } from './identity.ts';
import { silentLogger } from './log.ts';
import { metricsHandler, openMetrics } from './metrics-server.ts';
import { metricsToken } from './metrics-token.ts';
import { defineRoute } from './routes.ts';
import { type Credentials, createAuthority, issueCertificate } from './tls.ts';
import { closed } from './testing-sockets.ts';

const whoRoute = defineRoute({ method: 'GET', path: '/who', response: z.string(), summary: 'who asks' });
const talkRoute = defineRoute({ method: 'GET', path: '/talk', response: 'upgrade', summary: 'an echo' });

async function identityOf(authority: Credentials, role: string, days?: number): Promise<RenewedIdentity> {
  const issued = await issueCertificate(authority, { name: role, role, ...(days === undefined ? {} : { days }) });
  return new RenewedIdentity({ trusted: authority.certificate, ...issued });
}

async function startDoor(identity: RenewedIdentity, isClosed = true): Promise<RunningServer> {
  return startServer({
    name: 'door',
    handlers: [
      handle(whoRoute, async ({ caller }) => caller?.name ?? ''),
      metricsHandler(openMetrics()),
      handle(talkRoute, async () => (socket) => void socket.pipe(socket)),
    ],
    gate: async (request) => {
      const { peer } = request;
      // What comes from this machine counts as if it came from another.
      await roleGate('k', { admits: (role) => role !== appRole('stranger'), isClosed: () => isClosed })({
        ...request,
        remoteAddress: '192.0.2.9',
      });
      return { caller: { name: peer ?? 'nobody' } };
    },
    host: '127.0.0.1',
    port: 0,
    headTimeoutMs: 60_000,
    mutual: identity,
    log: silentLogger(),
  });
}

const clientOf = (server: RunningServer, identity: RenewedIdentity, role: string): HttpClient =>
  new HttpClient({ baseUrl: server.url, name: 'the door', key: 'k', mutual: { identity, server: role } });

test('both sides know each other by role, beside the key: in calls and in upgraded connections', async () => {
  const authority = await createAuthority('test');
  await using server = await startDoor(await identityOf(authority, hostRole('h1')));
  const controller = await identityOf(authority, appRole('controller'));
  await using client = clientOf(server, controller, hostRole('h1'));
  assert.equal(await client.call(whoRoute, {}), 'flynn:app/controller');
  const socket = await client.upgrade(talkRoute, {});
  socket.end('hello');
  assert.equal(await text(socket), 'hello');
  await using stranger = clientOf(server, await identityOf(authority, appRole('stranger')), hostRole('h1'));
  await assert.rejects(stranger.call(whoRoute, {}), (error) => hasCode(error, 'denied'));
  const mutual = { identity: controller, server: hostRole('h1') };
  await using keyless = new HttpClient({ baseUrl: server.url, name: 'the door', key: 'wrong', mutual });
  await assert.rejects(keyless.call(whoRoute, {}), (error) => hasCode(error, 'unauthenticated'));
  await using anywhere = clientOf(server, controller, anyHost);
  assert.equal(await anywhere.call(whoRoute, {}), 'flynn:app/controller');
});

test('a server of another role or another authority gets nothing of what was to be said', async () => {
  const authority = await createAuthority('test');
  await using server = await startDoor(await identityOf(authority, hostRole('h1')));
  const controller = await identityOf(authority, appRole('controller'));
  await using mistaken = clientOf(server, controller, hostRole('h2'));
  await assert.rejects(mistaken.call(whoRoute, {}), /flynn:host\/h1, not flynn:host\/h2/);
  await assert.rejects(mistaken.upgrade(talkRoute, {}), /flynn:host\/h1, not flynn:host\/h2/);
  const foreign = await identityOf(await createAuthority('test'), appRole('controller'));
  await using outsider = clientOf(server, foreign, hostRole('h1'));
  await assert.rejects(outsider.call(whoRoute, {}));
  // One who trusts the server is still nobody to it.
  const blind = new RenewedIdentity({ ...foreign.current, trusted: authority.certificate });
  await using unknown = clientOf(server, blind, hostRole('h1'));
  await assert.rejects(unknown.call(whoRoute, {}));
  await using nobody = new HttpClient({ baseUrl: server.url, name: 'the door', ca: authority.certificate });
  await assert.rejects(nobody.call(whoRoute, {}));
});

test('plain HTTP is served as long as somebody needs it; then it is told why not, but for figures', async () => {
  const authority = await createAuthority('test');
  const identity = await identityOf(authority, hostRole('h1'));
  await using open = await startDoor(identity, false);
  await using closed = await startDoor(identity);
  const plainUrl = (server: RunningServer): string => server.url.replace('https:', 'http:');
  await using welcome = new HttpClient({ baseUrl: plainUrl(open), key: 'k', name: 'the door' });
  assert.equal(await welcome.call(whoRoute, {}), 'nobody');
  const socket = await welcome.upgrade(talkRoute, {});
  socket.end('hello');
  assert.equal(await text(socket), 'hello');
  await using refused = new HttpClient({ baseUrl: plainUrl(closed), key: 'k', name: 'the door' });
  await assert.rejects(
    refused.call(whoRoute, {}),
    (error) => hasCode(error, 'unauthenticated') && /over TLS/.test(error.message),
  );
  const ping = await fetch(`${plainUrl(closed)}/ping`);
  assert.equal(ping.status, 200);
  // The token for monitoring opens what is for it, and a key alone nothing.
  const figures = await fetch(`${plainUrl(closed)}/metrics`, {
    headers: { authorization: `Bearer ${metricsToken('k')}` },
  });
  assert.equal(figures.status, 200);
  // Both kinds on one port.
  await using client = clientOf(open, await identityOf(authority, appRole('controller')), hostRole('h1'));
  assert.equal(await client.call(whoRoute, {}), 'flynn:app/controller');
});

test('a renewed certificate is shown to later connections, of the server and of clients, and open ones go on', async () => {
  const authority = await createAuthority('test');
  const identity = await identityOf(authority, hostRole('h1'));
  await using server = await startDoor(identity);
  const own = await identityOf(authority, appRole('controller'));
  await using client = clientOf(server, own, hostRole('h1'));
  const socket = await client.upgrade(talkRoute, {});
  identity.current = (await identityOf(authority, hostRole('h2'))).current;
  own.current = (await identityOf(authority, appRole('runner'))).current;
  socket.end('still here');
  assert.equal(await text(socket), 'still here');
  await using later = clientOf(server, own, hostRole('h2'));
  assert.equal(await later.call(whoRoute, {}), 'flynn:app/runner');
});

test('who leaves without a word is let go at once', async () => {
  await using server = await startDoor(await identityOf(await createAuthority('test'), hostRole('h1')));
  const socket = connect({ host: '127.0.0.1', port: server.port });
  await once(socket, 'connect');
  // It closes once the server has let go of it too, which gives a head a minute.
  socket.end().resume();
  await once(socket, 'close', { signal: AbortSignal.timeout(50_000) });
});

test('who says nothing is cut off, and a server that stops waits for nobody who is idle', async () => {
  const identity = await identityOf(await createAuthority('test'), hostRole('h1'));
  const serve = (headTimeoutMs: number) =>
    startServer({
      name: 'door',
      handlers: [],
      host: '127.0.0.1',
      port: 0,
      headTimeoutMs,
      mutual: identity,
      log: silentLogger(),
    });
  await using hurried = await serve(200);
  for (const begun of ['', 'GET /who HTTP/1.1\r\n']) {
    const socket = connect({ host: '127.0.0.1', port: hurried.port });
    socket.write(begun);
    socket.resume();
    await closed(socket);
  }
  const server = await serve(60_000);
  const idle = connect({ host: '127.0.0.1', port: server.port });
  idle.write('GET /ping HTTP/1.1\r\nhost: x\r\n\r\n');
  const [answer] = (await once(idle, 'data')) as [Buffer];
  assert.match(answer.toString(), /^HTTP\/1.1 200/);
  const ended = closed(idle);
  await server.close();
  await ended;
});
