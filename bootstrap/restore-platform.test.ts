/** The platform's own apps on a cluster that was restored: their records are there, and `up` makes them run again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, formations, releases } from '@flynn/controller/api';
import { routing } from '@flynn/controller/routes/api';
import { restoreRecords } from '@flynn/controller/backup/restore';
import { download, sourceOf } from '@flynn/controller/backup/restore-fixture';
import { startTestController } from '@flynn/controller/testing';
import { createMemoryStore } from '@flynn/store/memory';
import { withSettings } from './from-backup.ts';
import type { SystemApp } from './manifest.ts';
import { Platform } from './platform.ts';

const wanted: SystemApp = {
  name: 'controller',
  image: 'flynn/controller:1',
  env: { FLYNN_KEY: 'old', FLYNN_CONTROLLER_KEY: 'root' },
  processes: { web: { ports: [{ port: 3000, service: { name: 'controller' } }] }, worker: {} },
  counts: { web: 1, worker: 1 },
  routes: [{ type: 'http', domain: 'controller.flynn.localhost', service: 'controller' }],
};

test('a part of the platform goes on with its routes, numbers, settings and counts, on images of now', async () => {
  await using world = await startTestController();
  const platform = new Platform(world.client);
  const told = (): void => {};
  assert.equal(await platform.ensureApp(wanted, told), 'created');
  const params = { app: 'controller' };
  const own = { type: 'http' as const, domain: 'paas.example.com', service: 'controller' };
  await world.client.call(routing.create, { params, body: own });
  const before = await world.client.call(apps.get, { params });
  const scaled = { params: { ...params, release: before.releaseId ?? '' }, body: { processes: { web: 2 } } };
  await world.client.call(formations.put, scaled);
  const routesBefore = await world.client.call(routing.list, { params });

  const source = await sourceOf(await download(world));
  const store = createMemoryStore();
  const step = { nowMs: Date.now(), signal: new AbortController().signal, slugRunnerImage: 'flynn/slug-runner:2' };
  await restoreRecords(store, source, step);
  await using other = await startTestController({ store, hosts: 1 });
  const next = { ...wanted, image: 'flynn/controller:2', env: { ...wanted.env, FLYNN_KEY: 'new' } };
  const restored = new Platform(other.client);
  assert.equal(await restored.ensureApp(withSettings(next, source.inspection.platform), told), 'created');
  const after = await other.client.call(apps.get, { params });
  assert.equal(after.id, before.id);
  const release = await other.client.call(releases.get, { params: { ...params, release: after.releaseId ?? '' } });
  assert.equal(release.version, 2, 'numbers go on');
  assert.equal(release.env['FLYNN_KEY'], 'new');
  await other.jobsOf('controller', 3);
  assert.deepEqual(
    (await other.client.call(routing.list, { params })).map(({ domain, id }) => `${domain} ${id}`).toSorted(),
    routesBefore.map(({ domain, id }) => `${domain} ${id}`).toSorted(),
  );
  assert.equal(await restored.ensureApp(next, told), 'unchanged', 'an up of later finds all as it is to be');
});
