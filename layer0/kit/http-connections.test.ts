import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, type Server, createServer } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import type { ConnectionOptions } from 'node:tls';
import { FlynnError, hasCode, hasErrno } from './errors.ts';
import { HttpConnections } from './http-connections.ts';
import { neverSent } from './never-sent.ts';
import { waitFor } from './retry.ts';
import { createAuthority, issueCertificate } from './tls.ts';

const { signal } = new AbortController();

async function portOf(server: Server, t: TestContext): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const address = server.address() as AddressInfo;
  return address.port;
}

function connectionsOf(
  t: TestContext,
  options: { connectMs?: number; tls?: () => ConnectionOptions; resumesSessions?: boolean } = {},
): HttpConnections {
  const connections = new HttpConnections({ connectMs: 60_000, tls: () => ({}), resumesSessions: true, ...options });
  t.after(() => connections.close());
  return connections;
}

async function get(connections: HttpConnections, url: URL): Promise<string> {
  return text(await connections.request(url, { method: 'GET', headers: {}, signal }));
}

test('one request after the other goes over one connection, at once over as many as it takes', async (t) => {
  const together = Promise.withResolvers<void>();
  let waiting = 0;
  const server = http.createServer(async (request, response) => {
    if (request.url === '/together') {
      waiting += 1;
      if (waiting === 2) together.resolve();
      await together.promise;
    }
    response.end(String(request.socket.remotePort));
  });
  server.keepAliveTimeout = 3_600_000;
  const base = `http://127.0.0.1:${await portOf(server, t)}`;
  const connections = connectionsOf(t);
  const first = await get(connections, new URL('/', base));
  assert.equal(await get(connections, new URL('/', base)), first);
  const ports = await Promise.all([1, 2].map(() => get(connections, new URL('/together', base))));
  assert.equal(new Set(ports).size, 2);
  assert.ok(ports.includes(first));
});

test('what does not come about is told as never sent, be it that the other side says nothing in TLS', async (t) => {
  // It takes connections, and says nothing.
  const port = await portOf(createServer().unref(), t);
  const connections = connectionsOf(t, { connectMs: 50 });
  const body = Readable.from(['never read']);
  const failed = await connections
    .request(new URL(`https://127.0.0.1:${port}`), { method: 'PUT', headers: {}, body, signal })
    .catch((error: unknown) => error);
  assert.ok(hasErrno(failed, 'ETIMEDOUT'));
  assert.ok(neverSent(failed));
  assert.equal(body.readableDidRead, false);
  assert.equal(body.destroyed, false, 'another may be asked with it');
});

test('who answers before they have read everything is not sent the rest, and its sender is let go', async (t) => {
  const server = http.createServer((request, response) => {
    request.once('data', () => response.writeHead(403).end('no more'));
  });
  const base = new URL(`http://127.0.0.1:${await portOf(server, t)}`);
  let sent = 0;
  const endless = new Readable({
    read() {
      sent += 1;
      // What was read is sent in a later turn, so that an answer comes in between.
      setImmediate(() => this.push(Buffer.alloc(1_024)));
    },
  });
  const connections = connectionsOf(t);
  const response = await connections.request(base, { method: 'PUT', headers: {}, body: endless, signal });
  assert.equal(response.statusCode, 403);
  const letGo = once(endless, 'close');
  assert.equal(await text(response), 'no more');
  await letGo;
  assert.ok(sent > 0);
});

test('a body that breaks off breaks the request off with what broke it', async (t) => {
  const server = http.createServer((request) => request.on('error', () => undefined).resume());
  const base = new URL(`http://127.0.0.1:${await portOf(server, t)}`);
  const connections = connectionsOf(t);
  const broken = new Readable({ read() {} });
  const asked = connections.request(base, { method: 'PUT', headers: {}, body: broken, signal });
  broken.push('half');
  await once(server, 'request');
  broken.destroy(new Error('the disk broke'));
  await assert.rejects(asked, /the disk broke/);

  const gone = new Readable({ read() {} });
  const again = connections.request(base, { method: 'PUT', headers: {}, body: gone, signal });
  gone.push('half');
  await once(server, 'request');
  gone.destroy();
  await assert.rejects(again, { code: 'ERR_STREAM_PREMATURE_CLOSE' });
});

test('a body that fails before a connection stands fails the request', async (t) => {
  const port = await portOf(createServer().unref(), t);
  const body = new Readable({ read() {} });
  const url = new URL(`https://127.0.0.1:${port}`);
  const asked = connectionsOf(t).request(url, { method: 'PUT', headers: {}, body, signal });
  body.destroy(new Error('the disk broke'));
  await assert.rejects(asked, /the disk broke/);
});

test('an abort ends the reading of an answer: of one that has come but for its reading, it is no end', async (t) => {
  const whole = 'x'.repeat(40_000);
  const server = http.createServer((_request, response) => response.end(whole));
  const base = new URL(`http://127.0.0.1:${await portOf(server, t)}`);
  const connections = connectionsOf(t);
  const stop = new AbortController();
  const response = await connections.request(base, { method: 'GET', headers: {}, signal: stop.signal });
  await waitFor(() => response.complete, { what: 'the whole answer', deadlineMs: 60_000 });
  const failed = once(response, 'error');
  const out = response.pipe(new PassThrough({ highWaterMark: 1_000 }));
  stop.abort(new FlynnError('cancelled', 'no more'));
  const [error] = await failed;
  assert.ok(hasCode(error, 'cancelled'));
  assert.equal(out.writableEnded, false, 'it would pass for whole');
  await assert.rejects(connections.request(base, { method: 'GET', headers: {}, signal: stop.signal }), /no more/);

  // In the turn that reads the last of it Node has let go of the connection, whose error then is nobody's.
  const late = new AbortController();
  const read = await connections.request(base, { method: 'GET', headers: {}, signal: late.signal });
  const readAll = async () => {
    let bytes = 0;
    for await (const chunk of read) {
      bytes += chunk.length;
      if (bytes === whole.length) late.abort();
    }
  };
  await assert.rejects(readAll(), { code: 'cancelled' });
});

test('who changes the protocol unasked has not answered', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
    );
  });
  const base = new URL(`http://127.0.0.1:${await portOf(server, t)}`);
  await assert.rejects(get(connectionsOf(t), base), { code: 'unavailable' });
});

test('a connection that has come about during a standstill is not given up for it', async (t) => {
  const server = http.createServer((_request, response) => response.end('here'));
  const base = new URL(`http://127.0.0.1:${await portOf(server, t)}`);
  const asked = get(connectionsOf(t, { connectMs: 20 }), base);
  // Right behind the call that connects: what comes next are timers.
  process.nextTick(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200));
  assert.equal(await asked, 'here');
});

test('closing ends what is under way, head or body, and what is asked afterwards', async (t) => {
  const server = http.createServer((request, response) => {
    if (request.url === '/body') response.write('first');
  });
  const base = `http://127.0.0.1:${await portOf(server, t)}`;
  const connections = connectionsOf(t);
  const reading = text(await connections.request(new URL('/body', base), { method: 'GET', headers: {}, signal }));
  const waiting = connections.request(new URL('/', base), { method: 'GET', headers: {}, signal });
  await once(server, 'request');
  const ended = [reading, waiting].map((asked) => assert.rejects(asked, { code: 'ECONNRESET' }));
  connections.close();
  await Promise.all(ended);
  await assert.rejects(get(connections, new URL('/', base)), { code: 'unavailable' });
});

test('each connection over https is opened as is said then, and looks at who is there, if told to do so', async (t) => {
  const authority = await createAuthority('test');
  const issued = await issueCertificate(authority, { name: 'server', addresses: ['127.0.0.1'] });
  const server = https.createServer({ cert: issued.certificate, key: issued.privateKey }, (request, response) => {
    // Each with a connection of its own.
    response.writeHead(200, { connection: 'close' }).end(request.headers.host);
  });
  const base = new URL(`https://127.0.0.1:${await portOf(server, t)}`);
  for (const resumesSessions of [false, true]) {
    let [opened, looked] = [0, 0];
    const checkServerIdentity = () => void (looked += 1);
    const tls = () => {
      opened += 1;
      return { ca: authority.certificate, checkServerIdentity };
    };
    const connections = connectionsOf(t, { tls, resumesSessions });
    for (let asked = 1; asked <= 3; asked += 1) {
      assert.equal(await get(connections, base), base.host);
      assert.equal(opened, asked);
    }
    if (!resumesSessions) assert.equal(looked, 3);
  }
});
