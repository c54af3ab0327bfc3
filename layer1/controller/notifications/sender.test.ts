import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:https';
import { test } from 'node:test';
import { Outside } from '@flynn/kit/outside';
import { leaf, leafKey } from '../certificates/chain-fixture.ts';
import { startReceiver } from './receiver-fixture.ts';
import { sendOverHttp } from './sender.ts';

const { signal } = new AbortController();
const request = { headers: { 'content-type': 'text/plain' }, body: 'hello' };
const send = (url: string, outside?: Outside) => sendOverHttp({ url, outside }, request, signal);

test('what a receiver says is heard, in one line and as far as it matters', async () => {
  await using receiver = await startReceiver();
  const { url } = receiver;
  const [, port] = url.split('http://127.0.0.1:');
  assert.deepEqual(await send(`http://me:p%40ss@127.0.0.1:${port}/in?a=b`), { status: 204, text: '' });
  const [{ headers, path, body } = { headers: {}, path: '', body: '' }] = receiver.got;
  assert.deepEqual(
    [path, body, headers['content-type'], headers['content-length']],
    ['/in?a=b', 'hello', 'text/plain', '5'],
  );
  assert.equal(headers.authorization, `Basic ${Buffer.from('me:p@ss').toString('base64')}`);
  receiver.answerWith((response) => response.writeHead(429, { 'retry-after': '7' }).end('slow\u001b[31m\ndown'));
  assert.deepEqual(await send(url), { status: 429, text: 'slow [31m down', retryAfterMs: 7_000 });
  receiver.answerWith((response) => response.writeHead(200).end('x'.repeat(1_000_000)));
  const { text } = await send(url);
  assert.equal(text.length, 1_024);
});

test('a redirect is not followed', async () => {
  await using elsewhere = await startReceiver();
  await using receiver = await startReceiver();
  receiver.answerWith((response) => response.writeHead(302, { location: elsewhere.url }).end());
  const { status, text } = await send(receiver.url);
  assert.deepEqual([status, elsewhere.got], [302, []]);
  assert.match(text, /leads elsewhere, which is not followed/);
});

test('who is not there, and who says nothing of a kind, is told with the reason', async () => {
  const receiver = await startReceiver();
  receiver.answerWith((response) => response.destroy());
  assert.match((await send(receiver.url)).text, /^cannot reach 127\.0\.0\.1:\d+: socket hang up$/);
  await receiver[Symbol.asyncDispose]();
  const answer = await send(receiver.url);
  assert.deepEqual([answer.status, /ECONNREFUSED/.test(answer.text)], [undefined, true]);
});

test('what leads into the cluster, or to this machine, is not connected to: by its address, by its name, however written', async () => {
  await using receiver = await startReceiver();
  const { port } = new URL(receiver.url);
  const outside = new Outside();
  outside.setInside(['192.0.2.7', '100.100.3.0/24']);
  const inside = [
    '127.0.0.1',
    'localhost',
    '2130706433',
    '0x7f.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '0.0.0.0',
    '169.254.169.254',
    '192.0.2.7',
    '100.100.3.9',
  ];
  for (const host of inside) {
    const { status, text } = await send(`http://${host}:${port}/`, outside);
    assert.deepEqual([status, /is inside the cluster/.test(text)], [undefined, true], `${host}: ${text}`);
  }
  assert.deepEqual(receiver.got, []);
});

test('a certificate that nobody vouches for is not taken', async (t) => {
  let asked = 0;
  const server = createServer({ cert: leaf, key: leafKey }, (_request, response) => {
    asked += 1;
    response.end();
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const answer = await send(`https://127.0.0.1:${address.port}/`);
  assert.deepEqual([answer.status, asked], [undefined, 0]);
  assert.match(answer.text, /certificate/);
});
