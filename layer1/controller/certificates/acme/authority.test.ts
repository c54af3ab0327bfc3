import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { isAccountForgotten, newKey, openAuthority } from './authority.ts';

/** Answers each order with this problem. */
async function startAuthority(problem: { type: string; detail: string }) {
  const server = createServer((incoming, response) => {
    const url = `http://${incoming.headers.host}`;
    response.setHeader('replay-nonce', 'nonce');
    if (incoming.method === 'HEAD') return void response.end();
    if (incoming.url === '/directory') {
      const directory = { newNonce: `${url}/nonce`, newAccount: `${url}/account`, newOrder: `${url}/order` };
      return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(directory));
    }
    return void response.writeHead(400, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { url: `http://127.0.0.1:${address.port}`, [Symbol.dispose]: () => void server.close() };
}

test('an account that the authority does not know is told from all else that it may refuse an order for', async () => {
  for (const [type, isForgotten] of [
    ['accountDoesNotExist', true],
    ['rejectedIdentifier', false],
  ] as const) {
    using served = await startAuthority({ type: `urn:ietf:params:acme:error:${type}`, detail: 'what it said' });
    const spec = {
      directoryUrl: `${served.url}/directory`,
      contact: [],
      challenge: 'http-01' as const,
      isAutomatic: false,
      privateKey: newKey(),
    };
    const order = {
      domains: ['app.test'],
      challenge: 'http-01',
      present: () => assert.fail('nothing is to be proven'),
      signal: AbortSignal.timeout(60_000),
    } as const;
    await assert.rejects(openAuthority(spec, `${served.url}/account/1`).order(order), (error) => {
      assert.ok(error instanceof Error);
      assert.match(error.message, /^the authority said: what it said/);
      return isAccountForgotten(error) === isForgotten;
    });
  }
});
