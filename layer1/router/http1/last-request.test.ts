/** What becomes of a connection whose client said that its request is the last? */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startFront } from '../front-testing.ts';
import { startBackend } from '../testing.ts';

const soon = { deadlineMs: 30_000, intervalMs: 5 };
const last = 'GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n';

/** A client that never ends its side, at a front whose clock stands: nothing ends because it took long. */
async function ask(t: TestContext, said: string, body: Buffer) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const backend = await startBackend(t, (_, response) => response.end(body));
  const { port, front } = await startFront(t, 'fast', [backend.address]);
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => socket.destroy());
  const parts: Buffer[] = [];
  let hasEnded = false;
  socket.on('data', (part) => parts.push(part)).on('end', () => (hasEnded = true));
  socket.write(said);
  await waitFor(() => hasEnded, { what: 'the end of the answer', ...soon });
  return { front, answer: Buffer.concat(parts).toString('latin1') };
}

test('is closed with its answer, without waiting for the client', async (t) => {
  const { front, answer } = await ask(t, last, Buffer.from('ok'));
  assert.match(answer, /^HTTP\/1\.1 200 OK\r\n[^]*\r\nconnection: close\r\n\r\nok$/i);
  await waitFor(() => front.connections === 0, { what: 'the connection to be gone', ...soon });
});

test('is not as long as something lies there that it said all the same: that would take its answer back', async (t) => {
  const body = Buffer.alloc(300_000, 'x');
  const { front, answer } = await ask(t, `${last}GET / HTTP/1.1\r\nHost: app.test\r\n\r\n`, body);
  assert.ok(answer.endsWith(`\r\n\r\n${String(body)}`));
  assert.equal(front.connections, 1);
});
