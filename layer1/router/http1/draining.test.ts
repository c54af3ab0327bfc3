/** How long do connections hold up a router that is told to stop? */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { Deadlines, tickMs } from './deadlines.ts';
import { Http1Front, shared } from './front.ts';

/** Under the 75 s after which an idle connection is closed in any case, and longer than is waited for anything here. */
const goodbyeMs = 70_000;
const drainMs = 10 * goodbyeMs;
const soon = { deadlineMs: 60_000, intervalMs: 5 };
const request = 'GET / HTTP/1.1\r\nHost: app.test\r\n\r\n';

/** A front whose clock stands until the test moves it, and that answers all requests itself. */
async function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let elapsedMs = 0;
  const deadlines = new Deadlines(() => elapsedMs);
  const answer = () => ({ status: 200, code: '', fields: [], body: 'ok' });
  const policy = { admit: () => ({ answer: answer() }), refuse: answer };
  const front = new Http1Front({ policy, shared: { ...shared(), deadlines }, goodbyeMs });
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    front.take(socket, { address: '127.0.0.1', port: socket.remotePort ?? 0, localPort: 0, isTls: false });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.after(async () => {
    server.close();
    await front.drain({ deadlineMs: 0 });
  });
  const pass = (ms: number) => {
    for (let left = ms; left > 0; left -= tickMs) {
      elapsedMs += tickMs;
      t.mock.timers.tick(tickMs);
    }
  };
  /** A client that has had an answer, and keeps its connection. */
  const ask = async (socket: Socket) => {
    socket.write(request);
    const [bytes] = (await once(socket, 'data')) as [Buffer];
    return bytes.toString('latin1');
  };
  const client = async () => {
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    await ask(socket);
    return socket;
  };
  return { front, pass, ask, client };
}

test('a client that has not asked for long holds up nothing: its connection ends at once', async (t) => {
  const { front, pass, client } = await open(t);
  const socket = await client();
  pass(goodbyeMs + 1_000);
  assert.equal(front.connections, 1);
  const drained = front.drain({ deadlineMs: drainMs });
  await waitFor(() => front.connections === 0, { what: 'its connection to be let go of', ...soon });
  await drained;
  await closed(socket);
});

test('one that asked lately hears of the end with its next answer', async (t) => {
  const { front, ask, client } = await open(t);
  const socket = await client();
  const drained = front.drain({ deadlineMs: drainMs });
  assert.match(await ask(socket), /\r\nconnection: close\r\n/);
  socket.end();
  await waitFor(() => front.connections === 0, { what: 'its connection to be gone', ...soon });
  await drained;
});

for (const standstillMs of [0, 300]) {
  const title = 'a request that had arrived when its connection was about to end is answered';
  test(standstillMs === 0 ? title : `${title}, after a standstill too`, async (t) => {
    const { front, pass, ask, client } = await open(t);
    const socket = await client();
    pass(goodbyeMs + 1_000);
    const asked = ask(socket);
    const drained = front.drain({ deadlineMs: drainMs });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, standstillMs);
    assert.match(await asked, /^HTTP\/1\.1 200 /);
    socket.end();
    await drained;
  });
}

test('nothing is waited for where there is nobody', async (t) => {
  const { front } = await open(t);
  await front.drain({ deadlineMs: drainMs });
});

test('shared out, each connection that was there ends with one of its next answers, and no other does', async (t) => {
  const { front, pass, ask, client } = await open(t);
  const [socket, other] = [await client(), await client()];
  pass(1_000);
  front.shareOut();
  pass(1_000);
  const later = await client();
  let answers = 0;
  for (const each of [socket, other]) {
    for (let ended = false; !ended; answers += 1) ended = /\r\nconnection: close\r\n/.test(await ask(each));
    each.end();
  }
  assert.ok(answers > 2 && answers <= 16, String(answers));
  await waitFor(() => front.connections === 1, { what: 'both to be gone', ...soon });
  for (let asked = 0; asked < 50; asked += 1) assert.doesNotMatch(await ask(later), /connection: close/);
});

test('a connection that rests is left for as long as it is said, whoever drains', async (t) => {
  const { front, pass, ask, client } = await open(t);
  const socket = await client();
  pass(goodbyeMs + 1_000);
  const drained = front.drain({ deadlineMs: Infinity, restMs: 2 * goodbyeMs });
  await sleepTurns();
  assert.equal(front.connections, 1);
  assert.match(await ask(socket), /\r\nconnection: close\r\n/);
  socket.end();
  await drained;
});

/** As long as a draining takes to let go of two connections. */
async function sleepTurns(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await systemClock.sleep(20);
}
