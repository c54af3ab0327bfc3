/** How does a connection end whose client wants no more than one answer? */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { openFront } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 5 };

/** Asks, hears the answer to its end, and leaves its own side open. The front's clock stands. */
async function ask(port: number, request: string) {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  let said = '';
  socket.on('data', (chunk: Buffer) => (said += chunk.toString('latin1')));
  socket.write(request);
  await once(socket, 'end');
  return { socket, said };
}

test('one that said so is let go of with its answer: it has nothing more to send', async (t) => {
  const { front, port } = await openFront(t, { goodbyeMs: 70_000 });
  for (const request of [
    'GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n',
    'GET / HTTP/1.0\r\nHost: app.test\r\n\r\n',
  ]) {
    const { socket, said } = await ask(port, request);
    t.after(() => socket.destroy());
    assert.match(said, /^HTTP\/1\.1 200 OK\r\n.*\r\nconnection: close\r\n\r\nok$/s);
    await waitFor(() => front.connections === 0, { what: 'its connection to be gone', ...soon });
  }
});

test('one whose body is not read is waited for: closed at once, it might lose its answer', async (t) => {
  const { front, port, pass } = await openFront(t, { goodbyeMs: 70_000 });
  const head = 'POST / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n';
  const { socket, said } = await ask(port, head);
  t.after(() => socket.destroy());
  assert.match(said, /\r\n\r\nok$/);
  socket.write('x'.repeat(100_000));
  await waitFor(() => socket.writableLength === 0, { what: 'its body to be taken', ...soon });
  assert.equal(front.connections, 1);
  pass(3_000);
  await waitFor(() => front.connections === 0, { what: 'its connection to be gone', ...soon });
});
