/** A page's terminal, joined to programs by the frames that a host's agent speaks. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { jobs } from '@flynn/controller/api';
import type { Job } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { type Frame, encodeFrame, readFrames } from '@flynn/kit/frames';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { WebSocket, WebSocketServer } from 'ws';
import { serveTerminal } from './terminal.ts';
import { wantedOf } from './terminal-query.ts';

const person = { token: 'flynn_x', headers: { 'x-forwarded-for': '192.0.2.7' } };
const command = encodeURIComponent('["sh"]');

type Page = { socket: WebSocket; messages: unknown[]; output: () => string; closed: Promise<number> };

type Setting = { page: Page; served: () => Promise<void>; closing: AbortController };

/** A page, its server and a controller with these routes. */
async function open(
  t: TestContext,
  query: string,
  handlers: readonly Handler[],
  times: { idleMs?: number; pingMs?: number; deafMs?: number; autoPong?: boolean } = {},
): Promise<Setting> {
  const log = silentLogger();
  const controller = await startServer({
    name: 'controller',
    handlers,
    log,
    port: 0,
    host: '127.0.0.1',
    key: 'flynn_x',
  });
  const client = new HttpClient({ baseUrl: controller.url, name: 'the controller' });
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const closing = new AbortController();
  let served = Promise.resolve();
  server.on('connection', (socket) => {
    const wanted = wantedOf(query);
    served = serveTerminal(socket, { controller: client, person, wanted, closing: closing.signal, log, ...times });
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { autoPong: times.autoPong ?? true });
  const messages: unknown[] = [];
  let output = '';
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) output += data.toString();
    else messages.push(JSON.parse(data.toString()));
  });
  const closed = once(socket, 'close').then(([code]: number[]) => code ?? 0);
  await once(socket, 'open');
  t.after(async () => {
    socket.terminate();
    server.close();
    await client.close();
    await controller.close();
  });
  return { page: { socket, messages, output: () => output, closed }, served: () => served, closing };
}

function jobNamed(id: string): Job {
  const own = { workloadId: id, appId: 'a', releaseId: 'r', type: 'run', createdAt: '2030-01-01T00:00:00.000Z' };
  return { id, ...own, state: 'pending', restarts: 0 };
}

const running = (what: string, isSo: () => boolean) => waitFor(isSo, { what, deadlineMs: 60_000, intervalMs: 5 });

/** Beside a job: does what `run` says with the connection. */
function execHandler(run: (socket: Duplex, query: Record<string, unknown>) => void): Handler {
  return handle(
    jobs.exec,
    async ({ query }) =>
      (socket) =>
        run(socket, query),
  );
}

async function serveFrames(socket: Duplex, onFrame: (frame: Frame) => Frame | undefined): Promise<void> {
  for await (const frame of readFrames(socket)) {
    const answer = onFrame(frame);
    if (answer !== undefined) socket.write(encodeFrame(answer));
    if (answer?.kind === 'exit') socket.end();
  }
}

test('bytes go both ways, sizes one way, and the exit code comes last', async (t) => {
  const sizes: Frame[] = [];
  let asked: Record<string, unknown> = {};
  const handler = execHandler((socket, query) => {
    asked = query;
    void serveFrames(socket, (frame) => {
      if (frame.kind === 'resize') sizes.push(frame);
      if (frame.kind !== 'stdin') return undefined;
      const text = frame.data.toString();
      return text === '\u0004' ? { kind: 'exit', code: 3 } : { kind: 'stdout', data: Buffer.from(text.toUpperCase()) };
    });
  });
  const { page } = await open(t, `/terminal/exec?app=shop&command=${command}&type=web&columns=100&rows=30`, [handler]);
  page.socket.send(JSON.stringify({ type: 'resize', columns: 132, rows: 43 }));
  page.socket.send(Buffer.from('ls – ünï'));
  await running('the output', () => page.output() === 'LS – ÜNÏ');
  page.socket.send(Buffer.from('\u0004'));
  assert.equal(await page.closed, 1_000);
  assert.deepEqual(page.messages, [{ type: 'exit', code: 3 }]);
  assert.deepEqual(sizes, [{ kind: 'resize', columns: 132, rows: 43 }]);
  assert.deepEqual(asked, {
    command: ['sh'],
    tty: true,
    columns: 100,
    rows: 30,
    term: 'xterm-256color',
    type: 'web',
  });
});

test('a run is a job with a terminal, of the release that was asked for, and joined', async (t) => {
  let body: unknown;
  const { page } = await open(t, `/terminal/run?app=shop&command=${command}`, [
    handle(jobs.run, async (call) => {
      body = call.body;
      assert.equal(call.headers['x-forwarded-for'], '192.0.2.7');
      return jobNamed('h1-1');
    }),
    handle(jobs.attach, async ({ params, query }) => {
      assert.equal(params.job, 'h1-1');
      assert.deepEqual([query.stdin, query.logs, query.columns, query.rows], [true, true, 80, 24]);
      return (socket) => void serveFrames(socket, () => ({ kind: 'exit', code: 0 }));
    }),
  ]);
  page.socket.send(Buffer.from('x'));
  assert.equal(await page.closed, 1_000, JSON.stringify(page.messages));
  assert.deepEqual(page.messages, [{ type: 'exit', code: 0 }]);
  assert.deepEqual(body, { command: ['sh'], env: { TERM: 'xterm-256color' }, tty: true, stdin: true });
});

test('what the controller refuses is told in its words', async (t) => {
  const { page } = await open(t, `/terminal/exec?app=shop`, [
    handle(jobs.exec, async () => {
      throw new FlynnError('denied', 'this needs the role developer');
    }),
  ]);
  assert.equal(await page.closed, 1_011);
  assert.deepEqual(page.messages, [{ type: 'error', code: 'denied', message: 'this needs the role developer' }]);
});

test('an error of the host and a connection that ends are told', async (t) => {
  const failing = await open(t, '/terminal/exec?app=shop', [
    execHandler((socket) => socket.end(encodeFrame({ kind: 'error', code: 'conflict', message: 'the job has ended' }))),
  ]);
  assert.equal(await failing.page.closed, 1_011);
  assert.deepEqual(failing.page.messages, [{ type: 'error', code: 'conflict', message: 'the job has ended' }]);
  const revoked = await open(t, '/terminal/exec?app=shop', [execHandler((socket) => socket.destroy())]);
  assert.equal(await revoked.page.closed, 1_011);
  assert.match(JSON.stringify(revoked.page.messages), /"unavailable".*or the login is over/);
});

test('a page that leaves ends its program', async (t) => {
  const ended = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const { page, served } = await open(t, '/terminal/exec?app=shop', [
    execHandler((socket) => {
      socket.resume().once('close', ended.resolve);
      begun.resolve();
    }),
  ]);
  await begun.promise;
  page.socket.close();
  await ended.promise;
  await served();
});

test('a run whose page leaves before it is joined is stopped', async (t) => {
  const stopped = Promise.withResolvers<string>();
  const begun = Promise.withResolvers<void>();
  const { page } = await open(t, '/terminal/run?app=shop', [
    handle(jobs.run, async () => jobNamed('h1-2')),
    handle(jobs.attach, async ({ signal }) => {
      begun.resolve();
      await once(signal, 'abort');
      throw signal.reason;
    }),
    handle(jobs.stop, async ({ params }) => stopped.resolve(params.job)),
  ]);
  const outcome = Promise.race([
    begun.promise,
    page.closed.then(() => Promise.reject(new Error(JSON.stringify(page.messages)))),
  ]);
  await outcome;
  page.socket.close();
  assert.equal(await stopped.promise, 'h1-2');
});

test('a run whose answer is lost is asked for again, and is one job', async (t) => {
  const keys: unknown[] = [];
  const { page } = await open(t, '/terminal/run?app=shop', [
    handle(jobs.run, async ({ headers }) => {
      keys.push(headers['idempotency-key']);
      if (keys.length === 1) throw new FlynnError('unavailable', 'the controller is being replaced');
      return jobNamed('h1-3');
    }),
    handle(jobs.attach, async () => (socket) => socket.end(encodeFrame({ kind: 'exit', code: 0 }))),
  ]);
  assert.equal(await page.closed, 1_000, JSON.stringify(page.messages));
  assert.equal(keys.length, 2);
  assert.match(String(keys[0]), /^[\x21-\x7e]{16,}$/);
  assert.equal(keys[1], keys[0]);
});

test('a page that cannot be heard, as its program takes nothing, is not believed in for ever', async (t) => {
  const programs: Duplex[] = [];
  const deaf = execHandler((socket) => void programs.push(socket.on('error', () => undefined)));
  const { page, served } = await open(t, '/terminal/exec?app=shop', [deaf], { pingMs: 2_000, deafMs: 5_000 });
  const chunk = Buffer.alloc(64 * 1024);
  // However much the buffers of all sockets on the way take: there is always more.
  const isTold = () => {
    while (page.messages.length === 0 && page.socket.bufferedAmount < 4 * 1024 * 1024) {
      page.socket.send(chunk, () => undefined);
    }
    return page.messages.length > 0;
  };
  await waitFor(isTold, { what: 'the page to be told', deadlineMs: 60_000, intervalMs: 5 });
  assert.match(JSON.stringify(page.messages), /the program took nothing/);
  await served();
  for (const program of programs) program.destroy();
});

test('a page that sends is there, though its answer to a ping has not come yet; one that does neither is not', async (t) => {
  const reading = execHandler((socket) => void socket.on('error', () => undefined).resume());
  const { page, served } = await open(t, '/terminal/exec?app=shop', [reading], { pingMs: 1_000, autoPong: false });
  let pings = 0;
  page.socket.on('ping', () => {
    pings += 1;
    if (pings < 4) page.socket.send(Buffer.from('x'));
  });
  await page.closed;
  await served();
  assert.ok(pings >= 4, `it was ended after ${pings} pings`);
});

test('neither side is read faster than the other takes', async (t) => {
  let written = 0;
  const { page } = await open(t, '/terminal/exec?app=shop', [
    execHandler((socket) => {
      socket.on('error', () => undefined).resume();
      const frame = encodeFrame({ kind: 'stdout', data: Buffer.alloc(64 * 1024) });
      const more = () => {
        while (socket.write(frame)) written += frame.length;
        if (!socket.destroyed) socket.once('drain', more);
      };
      more();
    }),
  ]);
  page.socket.pause();
  let before = -1;
  await waitFor(
    () => {
      const isStill = written === before && written > 0;
      before = written;
      return isStill;
    },
    { what: 'the program to stand still', deadlineMs: 30_000, intervalMs: 200 },
  );
  assert.ok(written < 64 * 1024 * 1024, `${written} bytes were taken for a page that reads none`);
});

test('one that was forgotten ends, and says why; a server that closes ends all', async (t) => {
  const silent = execHandler((socket) => void socket.resume());
  const idle = await open(t, '/terminal/exec?app=shop', [silent], { idleMs: 1, pingMs: 20 });
  assert.equal(await idle.page.closed, 1_011);
  assert.match(JSON.stringify(idle.page.messages), /nothing was typed or said/);
  const stopping = await open(t, '/terminal/exec?app=shop', [silent]);
  stopping.closing.abort(new FlynnError('cancelled', 'the dashboard is shutting down'));
  assert.equal(await stopping.page.closed, 1_001);
  assert.match(JSON.stringify(stopping.page.messages), /shutting down/);
});

test('a message that no terminal sends ends it', async (t) => {
  const silent = execHandler((socket) => void socket.on('error', () => undefined).resume());
  for (const message of ['{', '{"type":"resize","columns":0,"rows":1}', '{"type":"signal"}']) {
    const { page } = await open(t, '/terminal/exec?app=shop', [silent]);
    page.socket.send(message);
    assert.equal(await page.closed, 1_011);
    assert.match(JSON.stringify(page.messages), /does not know/);
  }
});
