import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, hasCode } from '@flynn/kit/errors';
import { formations } from './api.ts';
import { startTestController } from './testing.ts';

const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

const volumes = [{ name: 'data', path: '/data' }];

test('of what each host runs one of, and of a part with its data on one host, nobody gets a second by scaling; what scaling needs keeps its last', async () => {
  await using world = await startTestController();
  const scale = (of: { app: { id: string }; release: { id: string } }, count: number) =>
    world.client.call(formations.put, {
      params: { app: of.app.id, release: of.release.id },
      body: { processes: { web: count } },
    });

  const store = await world.deployApp('blobstore', { web: { volumes, omni: true, maxHosts: 3 } }, { isSystem: true });
  await assert.rejects(scale(store, 2), isCode('invalid', /web=2: each of up to 3 hosts runs one of web.*more hosts/));
  const router = await world.deployApp('router', { web: { omni: true } }, { isSystem: true });
  await assert.rejects(scale(router, 2), isCode('invalid', /every host runs one/));
  const logs = await world.deployApp('logs', { web: { volumes } }, { isSystem: true });
  await assert.rejects(scale(logs, 2), isCode('invalid', /keeps its data on one host.*flynn -a logs limit/));
  for (const part of [store, router, logs]) assert.equal((await scale(part, 1)).processes['web'], 1);
  assert.equal((await scale(store, 0)).processes['web'], 0);
  const controller = await world.deployApp('controller', { web: {} }, { isSystem: true });
  for (const part of [router, controller]) {
    await assert.rejects(
      scale(part, 0),
      isCode('invalid', /web=0: without web of (router|controller) nothing could be/),
    );
  }
  assert.equal((await scale(controller, 2)).processes['web'], 2);

  const shared = await world.deployApp(
    'cache',
    { web: { volumes: [{ name: 'c', path: '/c', isShared: true }] } },
    { isSystem: true },
  );
  assert.equal((await scale(shared, 2)).processes['web'], 2);
  // Each job of an app of people's has a volume of its own: what it is for is theirs to know.
  const shop = await world.deployApp('shop', { web: { volumes } });
  assert.equal((await scale(shop, 2)).processes['web'], 2);
});
