import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startFront } from '../front-testing.ts';
import { track } from '../testing.ts';

const hint = `HTTP/1.1 103 Early Hints\r\nLink: ${'x'.repeat(60_000)}\r\n\r\n`;
const hints = 800;

test('hints to a client that does not take them are left out, and the answer comes all the same', async (t) => {
  let isSaid = false;
  const server = createServer((socket) => {
    let left = hints;
    const say = () => {
      for (; left > 0; left -= 1) if (!socket.write(hint)) break;
      if (left > 0) left -= 1;
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone', () => (isSaid = true));
    };
    socket.on('drain', say);
    socket.once('data', say);
  });
  const backend = await track(t, server);
  const { port } = await startFront(t, 'fast', [backend.address]);
  const client = connect(port, '127.0.0.1');
  t.after(() => client.destroy());
  client.pause();
  client.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  await waitFor(() => isSaid, { what: 'the backend to have said all', deadlineMs: 30_000, intervalMs: 5 });
  let heard = 0;
  let last = '';
  client.on('data', (bytes: Buffer) => {
    heard += bytes.length;
    last = (last + bytes.toString('latin1')).slice(-4);
  });
  client.resume();
  await waitFor(() => last === 'done', { what: 'the answer', deadlineMs: 30_000, intervalMs: 5 });
  // What the two kernels took is there.
  assert.ok(heard < (hints * hint.length) / 2, String(heard));
});
