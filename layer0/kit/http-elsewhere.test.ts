import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { z } from 'zod';
import { HttpClient } from './http-client.ts';
import { defineRoute } from './routes.ts';

const upload = defineRoute({
  method: 'POST',
  path: '/upload',
  summary: 'Take and give back',
  body: 'stream',
  response: z.object({ size: z.number() }),
});

/** A server that gives back what it gets, and where it is. */
async function startEcho() {
  const server = http.createServer((request, response) => {
    request.on('error', () => response.destroy()).pipe(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { server, url: `http://127.0.0.1:${address.port}` };
}

async function* broken(): AsyncGenerator<Buffer> {
  yield Buffer.from('{');
  throw new Error('the disk broke');
}

test('who follows discovery asks another instance when nobody is where it said, with the whole body', async (t) => {
  const [gone, there] = [await startEcho(), await startEcho()];
  gone.server.close();
  await once(gone.server, 'close');
  t.after(() => there.server.close());
  const asked: string[] = [];
  const baseUrl = async () => {
    const { url } = asked.length < 2 ? gone : there;
    asked.push(url);
    return url;
  };
  await using client = new HttpClient({ baseUrl, name: 'the store' });
  const body = Readable.from(['{"si', 'ze":', '3}'], { objectMode: false });
  assert.deepEqual(await client.call(upload, { body }), { size: 3 });
  assert.deepEqual(asked, [gone.url, gone.url, there.url]);

  const source = Readable.from(broken(), { objectMode: false });
  await assert.rejects(client.call(upload, { body: source }), /the disk broke/);
  assert.ok(source.destroyed);
});

test('who was given one address is told at once that nobody is there, and what it was to send is let go', async () => {
  const { server, url } = await startEcho();
  server.close();
  await once(server, 'close');
  await using client = new HttpClient({ baseUrl: url, name: 'the store' });
  const source = Readable.from(['x'], { objectMode: false });
  await assert.rejects(client.call(upload, { body: source }), { code: 'unavailable' });
  assert.ok(source.destroyed);
});
