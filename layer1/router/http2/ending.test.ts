import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:http2';
import type { ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { endWithTrailers } from './ending.ts';
import { replyOf, request } from './testing.ts';

test('a body ends with its trailers; with those that cannot be said it is reset, and nobody else notices', async (t) => {
  const server = createServer();
  let said = 0;
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', () => undefined);
    stream.respond({}, { waitForTrailers: true });
    stream.write('body');
    const name = headers[':path'] === '/good' ? 'x-sum' : 'http2-settings';
    endWithTrailers(stream, [name, '1'], () => (said += 1));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.after(() => {
    client.destroy();
    server.close();
  });
  await assert.rejects(replyOf(request(client, { ':path': '/bad' })), /reset 2/);
  assert.equal(said, 0);
  const { body, trailers } = await replyOf(request(client, { ':path': '/good' }));
  assert.deepEqual([body, trailers['x-sum'], said], ['body', '1', 1]);
});
