import { waitFor } from '@flynn/kit/retry';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { test } from 'node:test';
import { serveConnection } from './dns-connection.ts';
import { frameMessage } from './forward.ts';

const deadline = { deadlineMs: 60_000 };

/** One connection whose every question is answered with so many bytes. */
async function connection(answerBytes: number) {
  const taken = Promise.withResolvers<Socket>();
  const seen = { answered: 0, most: 0 };
  const server = createServer((socket) => {
    serveConnection(socket, async () => {
      seen.answered += 1;
      seen.most = Math.max(seen.most, socket.writableLength);
      return Buffer.alloc(answerBytes);
    });
    taken.resolve(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.pause();
  return {
    client,
    seen,
    socket: await taken.promise,
    [Symbol.dispose]() {
      client.destroy();
      server.close();
    },
  };
}

test('who asks and does not read is not listened to, and has every answer once it reads', async () => {
  const count = 4_000;
  const answerBytes = 8 * 1_024;
  using at = await connection(answerBytes);
  const question = frameMessage(Buffer.from('a question'));
  at.client.write(Buffer.concat(Array.from({ length: count }, () => question)));
  await waitFor(() => at.socket.isPaused() && at.socket.writableLength > 0, { what: 'it to be paused', ...deadline });
  let bytes = 0;
  at.client.on('data', (chunk: Buffer) => (bytes += chunk.length)).resume();
  await waitFor(() => bytes === count * (answerBytes + 2), { what: 'all answers', ...deadline });
  assert.equal(at.seen.answered, count);
  assert.ok(at.seen.most < 1_024 ** 2, `${at.seen.most} bytes of answers waited`);
});
