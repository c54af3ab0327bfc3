import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { openMirror } from '@flynn/store/mirror';
import { createMemoryStore } from '@flynn/store/memory';
import { z } from 'zod';
import { ByApp } from './by-app.ts';

const shape = z.object({ app: z.string(), n: z.number() });

test('what is there from the start, comes, moves to another app and goes is told of the app it is of', async () => {
  const store = createMemoryStore();
  const write = async (put: string, app: string, n: number) =>
    (await store.transact({ then: [{ put, value: JSON.stringify({ app, n }) }] })).revision;
  await write('/m/a', 'shop', 1);
  await using mirror = await openMirror({
    store,
    prefix: '/m/',
    decode: (json) => shape.parse(json),
    log: silentLogger(),
  });
  using byApp = new ByApp(mirror, ({ app }) => app);
  const of = (app: string) =>
    byApp
      .of(app)
      .map(({ n }) => n)
      .toSorted((a, b) => a - b);
  assert.deepEqual([of('shop'), of('blog')], [[1], []]);
  await write('/m/b', 'shop', 2);
  await write('/m/a', 'shop', 3);
  await mirror.reached(await write('/m/c', 'blog', 4));
  assert.deepEqual([of('shop'), of('blog')], [[2, 3], [4]]);
  await write('/m/b', 'blog', 2);
  const { revision } = await store.transact({ then: [{ delete: '/m/c' }] });
  await mirror.reached(revision);
  assert.deepEqual([of('shop'), of('blog')], [[3], [2]]);
});
