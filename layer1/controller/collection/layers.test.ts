import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { grants, tokens, users } from '../access/api.ts';
import { rootPrincipal } from '../access/principal.ts';
import { apps, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import { layers } from './api-layers.ts';
import { layerHandlers } from './layers.ts';

test('the layers of a slug and the record of its build are for developers of an app that has it, and for nobody else', async () => {
  await using store = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: store.url });
  const { client } = world;
  for (const name of ['mine', 'theirs']) await client.call(apps.create, { body: { name } });
  const { digest, sizeBytes } = await store.blobs.put('the code');
  const image = { base: 'slug-runner', layers: [{ digest, sizeBytes }] };
  const record = await store.blobs.put('what its build left');
  const made = { type: 'slug' as const, image, meta: { result: record.digest } };
  const artifact = await client.call(releases.createArtifact, { body: made });
  const body = { artifactId: artifact.id, processes: { web: {} } };
  await client.call(releases.create, { params: { app: 'mine' }, body });
  const source = await store.blobs.put('of no artifact');
  const params = { artifact: artifact.id };
  for (const [app, role, isReader] of [
    ['mine', 'developer', true],
    ['mine', 'viewer', false],
    ['theirs', 'admin', false],
  ] as const) {
    const name = `${role}-of-${app}`;
    await client.call(users.create, { body: { name } });
    await client.call(grants.put, { params: { app, kind: 'user', name }, body: { role } });
    const { token } = await client.call(tokens.create, { body: { name: 'test', user: name } });
    await using own = createControllerClient({ baseUrl: world.url, key: token });
    const read = async (one: string) => text(await own.stream(layers.get, { params: { ...params, digest: one } }));
    const isRefused = (error: unknown) => hasCode(error, 'not_found', 'denied');
    await assert.rejects(read(source.digest), isRefused, name);
    for (const [one, whole] of [
      [digest, 'the code'],
      [record.digest, 'what its build left'],
    ] as const) {
      if (isReader) assert.equal(await read(one), whole, name);
      else await assert.rejects(read(one), isRefused, name);
    }
  }
});

test('a layer has hours to arrive in, and who sends one that is refused midway is told why', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const never = () => assert.fail('nobody asks for that');
  const limits: (number | undefined)[] = [];
  let isFull = false;
  const blobs = {
    get: never,
    stat: never,
    async put(body: Readable | Uint8Array | string, options: { digest?: string; timeoutMs?: number } = {}) {
      limits.push(options.timeoutMs);
      assert.ok(body instanceof Readable);
      if (isFull) {
        for await (const _ of body) throw new FlynnError('exhausted', 'the disk is full');
      }
      return { digest: options.digest ?? '', sizeBytes: (await buffer(body)).length };
    },
  };
  const brought: string[] = [];
  const own = {
    check: never,
    missingFor: never,
    bring: async (_who: unknown, digest: string) => void brought.push(digest),
  };
  await using server = await startServer({
    name: 'controller',
    handlers: layerHandlers({ resources: world.deps.resources }, blobs, own),
    gate: async () => ({ caller: rootPrincipal() }),
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  await using client = new HttpClient({ baseUrl: server.url, key: 'k', name: 'the controller' });
  const digest = `sha256:${'a'.repeat(64)}`;
  const send = () => {
    const body = Readable.from(
      Array.from({ length: 64 }, () => Buffer.alloc(64 * 1024)),
      { objectMode: false },
    );
    return client.call(layers.put, { query: { digest }, body });
  };
  assert.deepEqual(await send(), { digest, sizeBytes: 64 * 64 * 1024 });
  assert.deepEqual([brought, limits], [[digest], [12 * 3_600_000]]);
  isFull = true;
  await assert.rejects(send(), (error) => hasCode(error, 'exhausted') && /the disk is full/.test(error.message));
});

test('who has sent all of a layer hears that it is being stored, however long that takes', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const never = () => assert.fail('nobody asks for that');
  const blobs = {
    get: never,
    stat: never,
    async put(body: Readable | Uint8Array | string, { digest = '' }: { digest?: string } = {}) {
      assert.ok(body instanceof Readable);
      t.mock.timers.tick(60_000);
      const sizeBytes = (await buffer(body)).length;
      t.mock.timers.tick(60_000);
      return { digest, sizeBytes };
    },
  };
  await using server = await startServer({
    name: 'controller',
    handlers: layerHandlers({ resources: world.deps.resources }, blobs, {
      check: never,
      missingFor: never,
      bring: async () => undefined,
    }),
    gate: async () => ({ caller: rootPrincipal() }),
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  const digest = `sha256:${'a'.repeat(64)}`;
  const asked = request(`${server.url}${layers.put.path}?digest=${digest}`, { method: layers.put.method });
  let told = 0;
  asked.on('information', () => (told += 1));
  const answered = once(asked, 'response');
  asked.end('all of it');
  const [answer] = (await answered) as [IncomingMessage];
  assert.equal(await text(answer), JSON.stringify({ digest, sizeBytes: 9 }));
  assert.equal(told, 3);
});
