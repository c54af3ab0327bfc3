import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hashPassword } from '@flynn/kit/password-hash';
import { waitFor } from '@flynn/kit/retry';
import { WebSocket, WebSocketServer } from 'ws';
import type { Driver } from '../config.ts';
import { replyOf, request as requestHttp2 } from '../http2/testing.ts';
import { ask, sayRaw, setUp, settled, startBackend, track } from '../testing.ts';
import type { World } from '../testing.ts';

const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` });
const right = basic('ann:open sesame');
const wrong = basic('ann:open barley');

/** Who is let in. */
export function accessConformance(driver: Driver): void {
  async function setUpClosed(t: TestContext, http: object = {}): Promise<World> {
    const world = await setUp(t, {}, driver);
    const hash = await hashPassword('open sesame', { costLog2: 14 });
    world.plane.setRoute({ id: 'r1', domain: 'app.test', http: { ...http, access: { users: { ann: { hash } } } } });
    const isClosed = async () => (await ask(world.port)).statusCode === 401;
    await waitFor(isClosed, { what: 'the route to close', deadlineMs: 60_000 });
    return world;
  }

  test('without the password a request is told how to say it, and reaches nobody; with it the app is not told', async (t) => {
    const { plane, router, port } = await setUpClosed(t);
    const backend = await startBackend(t, (request, response) => response.end(JSON.stringify(request.headers)));
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    for (const headers of [{}, wrong, wrong, basic('ben:open sesame'), { authorization: 'Bearer x' }]) {
      const refused = await ask(port, { headers: { ...headers, accept: 'text/html' } });
      assert.deepEqual([refused.statusCode, refused.headers['x-flynn-error']], [401, 'password-wanted']);
      assert.equal(refused.headers['www-authenticate'], 'Basic realm="app.test", charset="UTF-8"');
      assert.match(await text(refused), /<!doctype html>.*a user name and a password/s);
    }
    assert.equal(backend.requests, 0);
    // The first is looked at, the second known.
    for (let nth = 1; nth <= 2; nth += 1) {
      const seen = await text(await ask(port, { headers: { ...right, 'x-own': '1' } }));
      assert.match(seen, /"x-own":"1"/);
      assert.doesNotMatch(seen, /authorization|c2VzYW1l/i);
    }
    assert.equal(backend.requests, 2);
    assert.equal(router.status().counters.refusals['password-wanted'], 6);
  });

  test('what a refused request has of a body is taken for no other request, and what an admitted one has arrives', async (t) => {
    const { plane, router, port } = await setUpClosed(t);
    const backend = await startBackend(t, (request, response) => void request.pipe(response));
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const inside = 'GET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n';
    for (const { authorization } of [{ authorization: 'Bearer x' }, wrong]) {
      const head = `POST / HTTP/1.1\r\nHost: app.test\r\nAuthorization: ${authorization}\r\nContent-Length: ${inside.length}\r\n\r\n`;
      const last = 'GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n';
      const said = await sayRaw(port, head + inside + last);
      // A front may end the connection, or take the body for what it is and go on.
      const statuses = said.match(/HTTP\/1\.1 \d+/g) ?? [];
      assert.ok(
        statuses.every((status) => status === 'HTTP/1.1 401'),
        said,
      );
      assert.ok(statuses.length >= 1 && statuses.length <= (driver === 'fast' ? 1 : 2), said);
    }
    assert.equal(backend.requests, 0);
    const head = `POST / HTTP/1.1\r\nHost: app.test\r\nAuthorization: ${right.authorization}\r\nConnection: close\r\n`;
    const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`;
    assert.match(await sayRaw(port, chunked), /HTTP\/1\.1 200 OK[^]*hello/);
    const told = `${head}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`;
    assert.match(await sayRaw(port, `${told}hello`), /HTTP\/1\.1 200 OK[^]*hello/);
  });

  test('upgrades are let in like requests', async (t) => {
    const { plane, router, port } = await setUpClosed(t);
    const server = createServer();
    const sockets = new WebSocketServer({ server });
    sockets.on('connection', (socket, request) => socket.send(JSON.stringify(request.headers)));
    t.after(() => sockets.close());
    const backend = await track(t, server);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const open = (headers: Record<string, string>) =>
      new WebSocket(`ws://127.0.0.1:${port}/socket`, { headers: { host: 'app.test', ...headers } });
    for (const headers of [{}, wrong]) {
      const refused = open(headers);
      refused.on('error', () => undefined);
      const [, response] = await once(refused, 'unexpected-response');
      assert.deepEqual([response.statusCode, response.headers['x-flynn-error']], [401, 'password-wanted']);
      response.resume();
    }
    assert.equal(backend.sockets.size, 0);
    for (let nth = 1; nth <= 2; nth += 1) {
      const socket = open(right);
      const [hello] = await once(socket, 'message');
      assert.doesNotMatch(String(hello), /authorization/i);
      socket.close();
      await once(socket, 'close');
    }
  });

  test('whoever is at another address than those named is refused, whatever they know', async (t) => {
    const { plane, router, port } = await setUp(t, {}, driver);
    const backend = await startBackend(t, (_request, response) => response.end('in'));
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const turn = async (access: object, status: number) => {
      plane.setRoute({ id: 'r1', domain: 'app.test', http: { access } });
      const is = async () => (await ask(port, { headers: right })).statusCode === status;
      await waitFor(is, { what: `to be answered ${status}`, deadlineMs: 60_000 });
    };
    await turn({ allow: ['192.0.2.0/24'] }, 403);
    assert.equal((await ask(port)).headers['x-flynn-error'], 'address-refused');
    await turn({ allow: ['127.0.0.0/8'] }, 200);
  });

  // The other speaks no HTTP/2 at this port.
  if (driver !== 'fast') return;
  for (const protocol of ['http1', 'h2c'] as const) {
    test(`requests of HTTP/2 are let in like others, by a route whose backends speak ${protocol}`, async (t) => {
      const { plane, router, port } = await setUpClosed(t, { protocol });
      const seen: string[] = [];
      const server = protocol === 'http1' ? createServer() : createHttp2Server();
      server.on('request', (request, response) => {
        seen.push(JSON.stringify(request.headers));
        response.end('in');
      });
      const backend = await track(t, server);
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const session = connectHttp2(`http://127.0.0.1:${port}`);
      t.after(async () => session.destroy());
      for (const fields of [{}, wrong]) {
        const refused = await replyOf(requestHttp2(session, fields));
        assert.deepEqual([refused.status, refused.headers['x-flynn-error']], [401, 'password-wanted']);
        assert.match(String(refused.headers['www-authenticate']), /realm="app\.test"/);
      }
      const replies = await Promise.all([right, right].map((fields) => replyOf(requestHttp2(session, fields))));
      const plain = await ask(port, { headers: right });
      assert.deepEqual([...replies.map(({ body }) => body), await text(plain)], ['in', 'in', 'in']);
      assert.equal(seen.length, 3);
      for (const headers of seen) assert.doesNotMatch(headers, /authorization/i);
    });
  }
}
