import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { removeApp, textOfRemoved } from './removal.ts';

type Said = { status: number; body: object };

const counts = { routes: 2, releases: 3, jobs: 4, artifacts: 3, resources: 1 };
const goesOn: Said = { status: 504, body: { code: 'timeout', message: 'it goes on by itself', detail: counts } };
const fromProxy: Said = { status: 504, body: {} };
const unknown: Said = { status: 404, body: { code: 'not_found', message: 'no app "shop"' } };
const gone = (jobs: number): Said => ({
  status: 200,
  body: { ...counts, jobs, volumes: 0, left: { volumes: [], unasked: [] } },
});

/** Answers in turn, the last one from then on. */
async function controllerThatSays(t: TestContext, ...says: [Said, ...Said[]]) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const { status, body } = says[Math.min(asked.length, says.length) - 1] ?? says[0];
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = new HttpClient({ baseUrl: `http://127.0.0.1:${port}`, name: 'the controller' });
  t.after(async () => {
    await client.close();
    server.close();
  });
  return { client, asked };
}

const options = { volumes: false, deadlineMs: 60_000 };

test('a deletion that takes longer than one answer may is waited for, and what went is counted from its beginning', async (t) => {
  const { client, asked } = await controllerThatSays(t, goesOn, goesOn, gone(1));
  const removed = await removeApp(client, { id: 'shop' }, options);
  assert.deepEqual(
    asked,
    Array.from({ length: 3 }, () => 'DELETE /apps/shop'),
  );
  assert.equal(textOfRemoved('shop', removed), 'Deleted shop: 2 routes, 3 releases, 4 jobs, 3 artifacts, 1 resource\n');
});

test('an app that went between two questions is deleted, with what the first answer had found', async (t) => {
  const { client } = await controllerThatSays(t, goesOn, unknown);
  const removed = await removeApp(client, { id: 'shop' }, options);
  assert.match(textOfRemoved('shop', removed), /^Deleted shop: 2 routes, .*4 jobs/);
});

test('where nobody counted nothing is counted', async (t) => {
  const { client } = await controllerThatSays(t, fromProxy, unknown);
  const removed = await removeApp(client, { id: 'shop' }, options);
  assert.equal(textOfRemoved('shop', removed), 'Deleted shop\n');
});

test('a deletion is given up at its deadline with what the controller said, any other failure at once', async (t) => {
  const { client } = await controllerThatSays(t, goesOn);
  await assert.rejects(
    removeApp(client, { id: 'shop' }, { ...options, deadlineMs: 100 }),
    (error) => hasCode(error, 'timeout') && /it goes on by itself/.test(error.message),
  );
  const denies = await controllerThatSays(t, { status: 403, body: { code: 'denied', message: 'not yours' } });
  await assert.rejects(removeApp(denies.client, { id: 'shop' }, options), (error) => hasCode(error, 'denied'));
  assert.equal(denies.asked.length, 1);
});
