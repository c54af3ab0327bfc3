import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { appSchema, metaSchema } from '@flynn/controller/model';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { saveClusters } from '../clusters/clusters.ts';
import { Desk, openDeskWithController } from '../testing.ts';

test('metadata that several set and remove at the same time is what all of them wanted', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  const { id } = await client.call(apps.create, { body: { name: 'shop', meta: { old: '1', kept: '1' } } });
  const expiry = { 'review.of': id, 'review.expires_at': '2999-01-01T00:00:00Z' };
  await client.call(apps.create, { body: { name: 'pr-1', meta: expiry } });
  const names = Array.from({ length: 6 }, (_, number) => `n${number}`);
  const run = async (...argv: string[]) => {
    const { code, stderr } = await env.desk.run(argv);
    assert.equal(code, 0, stderr);
  };
  await Promise.all([
    ...names.map((name) => run('-a', 'shop', 'meta', 'set', `${name}=${name}`)),
    run('-a', 'shop', 'meta', 'unset', 'old'),
  ]);
  const metaOf = async (app: string) => (await client.call(apps.get, { params: { app } })).meta;
  assert.deepEqual(await metaOf('shop'), { kept: '1', ...Object.fromEntries(names.map((name) => [name, name])) });
  await Promise.all([
    run('review', 'extend', 'pr-1', '3000d'),
    ...names.map((name) => run('-a', 'pr-1', 'meta', 'set', `${name}=${name}`)),
  ]);
  const { 'review.expires_at': goesAt, ...rest } = await metaOf('pr-1');
  assert.notEqual(goesAt, expiry['review.expires_at']);
  assert.equal(Object.keys(rest).length, 1 + names.length);
});

test('of a controller of a version before metadata is written whole', async () => {
  let app = appSchema.parse({
    id: 'a',
    name: 'shop',
    meta: { old: '1', kept: '1' },
    isSystem: false,
    deployTimeoutMs: 1,
    createdAt: '2026-01-01T00:00:00Z',
    updatedAt: '2026-01-01T00:00:00Z',
  });
  const { method, path, response, summary } = apps.update;
  const former = defineRoute({ method, path, response, summary, body: z.object({ meta: metaSchema.optional() }) });
  await using server = await startServer({
    name: 'controller',
    handlers: [
      handle(apps.get, async () => app),
      handle(former, async ({ body }) => {
        app = { ...app, ...(body.meta === undefined ? {} : { meta: body.meta }) };
        return app;
      }),
    ],
    isStrict: true,
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  await using desk = await Desk.open();
  const known = { name: 'test', controllerUrl: server.url, key: 'k', gitUrl: 'ssh://git@flynn.localhost:2222' };
  const cluster = { ...known, domain: 'flynn.localhost', httpPort: 80 };
  await saveClusters(desk.configDirectory, { default: 'test', clusters: [cluster] });
  const { code, stderr } = await desk.run(['-a', 'shop', 'meta', 'set', 'new=2']);
  assert.equal(code, 0, stderr);
  assert.equal((await desk.run(['-a', 'shop', 'meta', 'unset', 'old'])).code, 0);
  assert.deepEqual(app.meta, { kept: '1', new: '2' });
});
