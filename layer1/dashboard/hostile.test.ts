/** Between a browser and a controller that both misbehave: nothing hangs, nothing leaks, and nothing of one harms the other. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { WebSocket } from 'ws';
import { type TestDashboard, byRouter, ownPage, startTestDashboard } from './testing.ts';

const cookie = `__Host-flynn-session=flynn_abcdefghijkl_${'s'.repeat(43)}`;

async function behind(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<TestDashboard> {
  const controller = createServer(answer);
  controller.listen(0, '127.0.0.1');
  await once(controller, 'listening');
  const address = controller.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const dashboard = await startTestDashboard(`http://127.0.0.1:${port}`);
  t.after(async () => {
    await dashboard[Symbol.asyncDispose]();
    controller.closeAllConnections();
    controller.close();
  });
  return dashboard;
}

/** All that comes back for these bytes, until the connection ends. */
async function raw(dashboard: TestDashboard, bytes: string | Buffer): Promise<string> {
  const socket = connect(dashboard.port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(bytes);
  const said = text(socket).catch(() => '');
  setTimeout(() => socket.end(), 300).unref();
  return said;
}

test('what the controller says is data to the browser, whatever it is', async (t) => {
  const dashboard = await behind(t, (_request, response) => {
    response.writeHead(200, {
      'content-type': 'text/html',
      'set-cookie': ['__Host-flynn-session=evil; Path=/', 'other=1'],
      'access-control-allow-origin': '*',
      location: 'https://evil.example.com',
    });
    response.end('<script>alert(1)</script>');
  });
  const { headers, body } = await dashboard.ask('GET', '/api/apps', { headers: { cookie } });
  assert.equal(body, '<script>alert(1)</script>');
  assert.equal(headers['content-type'], 'application/octet-stream');
  assert.equal(headers['x-content-type-options'], 'nosniff');
  for (const name of ['set-cookie', 'access-control-allow-origin', 'location'])
    assert.equal(headers[name], undefined, name);
});

test('a browser that leaves ends what is asked for it, and one that does not read is not read for', async (t) => {
  let sent = 0;
  const ended = Promise.withResolvers<void>();
  const dashboard = await behind(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    const chunk = Buffer.alloc(64 * 1024);
    const more = () => {
      while (response.write(chunk)) sent += chunk.length;
      response.once('drain', more);
    };
    more();
    response.once('close', ended.resolve);
  });
  const leaving = new AbortController();
  const answer = await dashboard.open('GET', '/api/backup', { headers: { cookie }, signal: leaving.signal });
  answer.on('error', () => undefined);
  answer.pause();
  // What the sockets' buffers take it takes; then it stands still.
  let before = -1;
  await waitFor(
    () => {
      const isStill = sent === before;
      before = sent;
      return isStill;
    },
    { what: 'the stream to stand still', deadlineMs: 30_000, intervalMs: 200 },
  );
  assert.ok(sent < 64 * 1024 * 1024, `${sent} bytes were taken for a browser that reads none`);
  leaving.abort();
  await ended.promise;
});

test('a controller that breaks off, or answers nonsense, is told as that', async (t) => {
  const dashboard = await behind(t, ({ url }, response) => {
    if (url === '/half') {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
      response.write('{"half":');
      setImmediate(() => response.destroy());
      return;
    }
    response.socket?.end(url === '/nonsense' ? 'nonsense\r\n\r\n' : '');
  });
  const half = await dashboard.open('GET', '/api/half', { headers: { cookie } });
  await assert.rejects(text(half), /aborted/);
  for (const path of ['/api/nonsense', '/api/nothing']) {
    const { status, body } = await dashboard.ask('GET', path, { headers: { cookie } });
    assert.ok(status >= 500, `${path}: ${status}`);
    assert.match(body, /^\{"code":"/);
    assert.doesNotMatch(body, /flynn_/);
  }
});

test('an upload that ends early is no shorter one to the controller', async (t) => {
  const outcome = Promise.withResolvers<string>();
  const arrived = Promise.withResolvers<void>();
  const dashboard = await behind(t, (request) => {
    request.once('data', () => arrived.resolve());
    text(request).then(outcome.resolve, () => outcome.resolve('broken off'));
  });
  const socket = connect(dashboard.port, '127.0.0.1');
  const lines = Object.entries({ ...byRouter, ...ownPage, cookie }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST /api/layers HTTP/1.1\r\n${lines.join('')}content-length: 100\r\n\r\nhalf`);
  await arrived.promise;
  socket.destroy();
  assert.equal(await outcome.promise, 'broken off');
});

test('heads that are too large, ambiguous or no HTTP at all are refused, and others are served meanwhile', async (t) => {
  const asked: (string | undefined)[] = [];
  const dashboard = await behind(t, ({ url }, response) => {
    asked.push(url);
    response.end();
  });
  const lines = Object.entries({ ...byRouter, ...ownPage, cookie }).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = (first: string, more = '') => `${first} HTTP/1.1\r\n${lines.join('')}${more}\r\n`;
  for (const bytes of [
    head('GET /api/apps', `x-large: ${'x'.repeat(100_000)}\r\n`),
    head(`GET /api/${'x'.repeat(100_000)}`),
    head('POST /api/apps', 'content-length: 5\r\ntransfer-encoding: chunked\r\n') +
      '0\r\n\r\nGET /api/smuggled HTTP/1.1\r\n\r\n',
    head('POST /api/apps', 'content-length: 1\r\ncontent-length: 2\r\n'),
    head('GET /api/apps').replace('HTTP', 'HTTX'),
    Buffer.from([0x16, 0x03, 0x01, 0x00, 0x05, 0, 0, 0, 0, 0]),
  ]) {
    const answer = await raw(dashboard, bytes);
    assert.match(answer, /^(HTTP\/1\.1 4\d\d |$)/);
  }
  assert.deepEqual(asked, []);
  assert.equal((await dashboard.ask('GET', '/ping')).status, 200);
});

test('a terminal is opened by a page of ours alone, for who is logged in', async (t) => {
  let asked = 0;
  const dashboard = await behind(t, (_request, response) => {
    asked += 1;
    response.end();
  });
  const refusalOf = (path: string, headers: Record<string, string | undefined>) =>
    new Promise<number>((resolve, reject) => {
      const all = Object.entries({ ...byRouter, ...ownPage, cookie, ...headers }).filter(
        ([, value]) => value !== undefined,
      );
      const socket = new WebSocket(`ws://127.0.0.1:${dashboard.port}${path}`, { headers: Object.fromEntries(all) });
      socket.once('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
      socket.once('open', () => reject(new Error('it was opened')));
      socket.on('error', () => undefined);
    });
  const path = '/terminal/run?app=shop';
  assert.equal(await refusalOf(path, { origin: 'https://evil.example.com', 'sec-fetch-site': 'same-site' }), 403);
  assert.equal(await refusalOf(path, { origin: undefined }), 403);
  assert.equal(await refusalOf(path, { cookie: undefined }), 401);
  assert.equal(await refusalOf('/terminal/run', {}), 400);
  assert.equal(await refusalOf('/terminal/run?app=shop&command=rm', {}), 400);
  assert.equal(await refusalOf('/terminal/run?app=shop&columns=0', {}), 400);
  assert.equal(await refusalOf('/terminal/other?app=shop', {}), 404);
  assert.equal(await refusalOf('/api/apps/shop/exec?app=shop', {}), 404);
  assert.equal(asked, 0);
});

test('a link that was exchanged has logged in, whatever else the controller cannot say then', async (t) => {
  const token = `flynn_abcdefghijkl_${'m'.repeat(43)}`;
  const dashboard = await behind(t, ({ url }, response) => {
    const made = {
      id: 'abcdefghijkl',
      name: 'dashboard',
      user: 'ann',
      role: 'developer',
      createdAt: '2030-01-01T00:00:00.000Z',
    };
    response.writeHead(url === '/tokens/exchange' ? 200 : 503, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify(url === '/tokens/exchange' ? { ...made, token } : { code: 'unavailable', message: 'it elects' }),
    );
  });
  assert.equal(await dashboard.logIn(`flynn_abcdefghijkl_${'l'.repeat(43)}`), `__Host-flynn-session=${token}`);
});

test('a browser that logs out has forgotten the login, and is told what is left to do where the controller is away', async (t) => {
  const dashboard = await behind(t, (_request, response) => {
    response.writeHead(503, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ code: 'unavailable', message: 'it elects' }));
  });
  const out = await dashboard.ask('DELETE', '/session', { headers: { cookie } });
  assert.equal(out.status, 503);
  assert.match(out.headers['set-cookie']?.[0] ?? '', /^__Host-flynn-session=; Path=\/; Max-Age=0; /);
  assert.match(out.body, /could not be taken back \(.*it elects.*\): flynn token revoke abcdefghijkl/);
  // Who looks after that learns so without the controller.
  assert.equal((await dashboard.ask('GET', '/session')).status, 401);
});
