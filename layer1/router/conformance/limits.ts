import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import type { Driver } from '../config.ts';
import { startFront } from '../front-testing.ts';
import type { Script } from '../front-testing.ts';
import { ask, sayRaw, startBackend, startWorkingBackend, standstillMs } from '../testing.ts';

const head = 'POST / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n';

/** What the policy says of a request, and what it is told. */
export function limitsConformance(driver: Driver): void {
  const start = (t: TestContext, addresses: string[], script?: Script) => startFront(t, driver, addresses, script);

  test('a body larger than the route takes is refused, announced or not', async (t) => {
    const backend = await startBackend(t, (request, response) => void request.pipe(response));
    const { port } = await start(t, [backend.address], { limits: { bodyBytes: 10 } });
    assert.match(await sayRaw(port, `${head}Content-Length: 10\r\n\r\n0123456789`), /0123456789/);
    assert.match(await sayRaw(port, `${head}Content-Length: 11\r\n\r\n0123456789a`), /x-flynn-error: body-too-large/);
    const chunks = `${head}Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n6789a\r\n0\r\n\r\n`;
    assert.match(await sayRaw(port, chunks), /x-flynn-error: body-too-large/);
  });

  test('a body that is collected first takes no backend before it is there', async (t) => {
    const backend = await startBackend(t, (request, response) => void request.pipe(response));
    const { port, told } = await start(t, [backend.address], { limits: { bufferBytes: 100 } });
    const socket = connect(port, '127.0.0.1');
    let said = '';
    socket.on('data', (data) => (said += String(data)));
    socket.write(`${head}Expect: 100-continue\r\nContent-Length: 10\r\n\r\n`);
    await waitFor(() => said.includes('100 Continue'), { what: 'to be told to go on', deadlineMs: 30_000 });
    assert.deepEqual(told, []);
    const ended = closed(socket);
    socket.write('01234');
    socket.write('56789');
    await ended;
    assert.match(said, /0123456789/);
    assert.deepEqual(told, ['pick', 'release', 'end']);
  });

  test('a larger one than can be collected goes on as it comes, whole', async (t) => {
    const backend = await startBackend(t, (request, response) => void request.pipe(response));
    const { port } = await start(t, [backend.address], { limits: { bufferBytes: 4 } });
    const chunks = `${head}Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n4\r\n6789\r\n0\r\n\r\n`;
    assert.match(await sayRaw(port, chunks), /012345[^]*6789/);
  });

  test('every backend that was picked is released, whatever became of it', async (t) => {
    const gone = await startBackend(t, () => {});
    const breaking = await startBackend(t, (request) => request.socket.destroy());
    const good = await startBackend(t, (_request, response) => response.end('good'));
    await gone.close();
    const { port, told } = await start(t, [gone.address, breaking.address, good.address]);
    const response = await ask(port);
    assert.equal(await text(response), 'good');
    const expected = ['pick', 'dial', 'release', 'pick', 'broke', 'release', 'pick', 'release', 'end'];
    await waitFor(() => told.length === expected.length, { what: 'the end', deadlineMs: 30_000 });
    assert.deepEqual(told, expected);
    const none = await start(t, [gone.address]);
    assert.equal((await ask(none.port)).headers['x-flynn-error'], 'unreachable');
    assert.equal((await ask((await start(t, [])).port)).headers['x-flynn-error'], 'no-backends');
  });

  test('a backend that is late is told of, and so is a client that does not go on', async (t) => {
    const backend = await startBackend(t, (request) => void request.resume());
    const { port, told, endings } = await start(t, [backend.address], { limits: { firstByteMs: 200, idleMs: 300 } });
    assert.equal((await ask(port)).headers['x-flynn-error'], 'backend-late');
    assert.deepEqual(told, ['pick', 'late', 'release', 'end']);
    assert.match(await sayRaw(port, `${head}Content-Length: 10\r\n\r\n01234`), /x-flynn-error: client-slow/);
    await waitFor(() => endings.length === 2, { what: 'the end', deadlineMs: 30_000 });
    await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
  });

  test('a backend that says it is at work is waited for, as long as it says so', async (t) => {
    const firstByteMs = 2_000;
    const backend = await startWorkingBackend(t, firstByteMs * 1.5);
    const { port } = await start(t, [backend.address], { limits: { firstByteMs } });
    assert.match(
      await sayRaw(port, `${head}Content-Length: 2\r\n\r\nab`),
      /HTTP\/1\.1 102 [^]*HTTP\/1\.1 200 OK[^]*done/,
    );
  });

  test('a whole that takes too long is given up, before its answer and within it', async (t) => {
    const backend = await startBackend(t, (request, response) => {
      if (request.url !== '/drip') return;
      const drip = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(drip));
    });
    const { port, endings } = await start(t, [backend.address], { limits: { totalMs: standstillMs } });
    assert.equal((await ask(port)).headers['x-flynn-error'], 'too-late');
    const dripping = await ask(port, { path: '/drip' });
    await assert.rejects(text(dripping), /aborted/);
    await waitFor(() => endings.length === 2, { what: 'the end', deadlineMs: 30_000 });
    assert.equal(endings[1]?.how, 'broken-off');
  });

  test('the policy can have another answer sent, and fields with the one there is', async (t) => {
    const backend = await startBackend(t, (request, response) => {
      response.statusCode = request.url === '/500' ? 500 : 200;
      response.end('its own');
    });
    const page = { status: 500, code: 'page', fields: ['content-type', 'text/html'], body: '<p>ours' };
    const { port } = await start(t, [backend.address], {
      answered: (status) => (status === 500 ? page : ['set-cookie', 'a=1']),
    });
    const replaced = await ask(port, { path: '/500' });
    assert.equal(replaced.headers['x-flynn-error'], 'page');
    assert.equal(await text(replaced), '<p>ours');
    assert.deepEqual((await ask(port)).headers['set-cookie'], ['a=1']);
  });
}
