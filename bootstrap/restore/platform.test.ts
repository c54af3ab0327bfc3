/** The platform's own apps on a cluster that was restored: their records are there, and `up` makes them run again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, formations, releases } from '@flynn/controller/api';
import { limitsOf } from '@flynn/controller/backup/platform-limits';
import { processSchema } from '@flynn/controller/processes/process';
import { routing } from '@flynn/controller/routes/api';
import type { PlatformPart } from '@flynn/controller/backup/manifest';
import { restoreRecords } from '@flynn/controller/backup/restore';
import { download, sourceOf } from '@flynn/controller/backup/restore-fixture';
import { startTestController } from '@flynn/controller/testing';
import { createMemoryStore } from '@flynn/store/memory';
import { withSettings } from './from-backup.ts';
import type { SystemApp } from '../platform/manifest.ts';
import { Platform } from '../platform/platform.ts';

function platformWith(apps: PlatformPart['apps']): PlatformPart {
  return {
    name: 'old',
    domain: 'flynn.localhost',
    httpPort: 80,
    httpsPort: 443,
    gitUrl: 'ssh://git@flynn.localhost',
    apps,
  };
}

/** The machine that it is restored onto. */
const places = [{ id: 'new', attributes: {}, capacity: { memoryBytes: 4 * 1024 ** 3, cpuMillis: 2_000 } }];

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
  const former = { ...wanted, env: { ...wanted.env, FLYNN_DROPPED: 'x' } };
  assert.equal(await platform.ensureApp(former, told), 'created');
  const params = { app: 'controller' };
  const route = { type: 'http' as const, domain: 'paas.example.com', service: 'controller' };
  await world.client.call(routing.create, { params, body: route });
  const env = { FLYNN_OIDC_ISSUER: 'https://id', FLYNN_CONTROLLER_KEY: 'root', FLYNN_KEY: 'old', FLYNN_DROPPED: 'x' };
  const live = await world.client.call(apps.get, { params });
  const made = await world.client.call(releases.get, { params: { ...params, release: live.releaseId ?? '' } });
  const memoryBytes = 2 * 1024 ** 3;
  const processes = { ...made.processes, web: { ...processSchema.parse(made.processes['web']), memoryBytes } };
  const body = { artifactId: made.artifactId ?? '', env, processes, meta: made.meta };
  await world.deploy('controller', (await world.client.call(releases.create, { params, body })).id);
  const before = await world.client.call(apps.get, { params });
  const scaled = { params: { ...params, release: before.releaseId ?? '' }, body: { processes: { web: 2 } } };
  await world.client.call(formations.put, scaled);
  const routesBefore = await world.client.call(routing.list, { params });

  const source = await sourceOf(await download(world));
  const store = createMemoryStore();
  const step = {
    nowMs: Date.now(),
    signal: new AbortController().signal,
    slugRunnerImage: 'flynn/slug-runner:2',
    applianceImages: [],
  };
  await restoreRecords(store, source, step);
  await using other = await startTestController({ store, hosts: 1 });
  const next = { ...wanted, image: 'flynn/controller:2', env: { ...wanted.env, FLYNN_KEY: 'new' } };
  const restored = new Platform(other.client);
  assert.equal(await restored.ensureApp(withSettings(next, source.inspection.platform, places), told), 'created');
  const after = await other.client.call(apps.get, { params });
  assert.equal(after.id, before.id);
  const release = await other.client.call(releases.get, { params: { ...params, release: after.releaseId ?? '' } });
  assert.equal(release.version, 3, 'numbers go on');
  const own = { FLYNN_KEY: 'new', FLYNN_CONTROLLER_KEY: 'root' };
  assert.deepEqual(release.env, { ...own, FLYNN_OIDC_ISSUER: 'https://id' }, 'what people set, and this version knows');
  assert.equal(release.processes['web']?.memoryBytes, memoryBytes, 'what people let it take');
  await restored.restoreCounts(source.inspection.platform);
  await other.jobsOf('controller', 3);
  assert.deepEqual(
    (await other.client.call(routing.list, { params })).map(({ domain, id }) => `${domain} ${id}`).toSorted(),
    routesBefore.map(({ domain, id }) => `${domain} ${id}`).toSorted(),
  );
  assert.equal(await restored.ensureApp(next, told), 'unchanged', 'an up of later finds all as it is to be');
  assert.equal(await restored.ensureApp({ ...next, image: 'flynn/controller:3' }, told), 'updated');
  const { releaseId: updated = '' } = await other.client.call(apps.get, { params });
  const last = await other.client.call(releases.get, { params: { ...params, release: updated } });
  assert.equal(last.env['FLYNN_OIDC_ISSUER'], 'https://id', 'what came with the backup is still people’s');
  assert.equal(last.processes['web']?.memoryBytes, memoryBytes);
});

test('parts that were scaled to more than there is room for here come up, and the rest of them waits for room', async () => {
  await using other = await startTestController({ hosts: 1, memoryBytes: 1024 ** 3 });
  const restored = new Platform(other.client);
  const platform = platformWith({
    controller: { env: {}, given: [], counts: { web: 40, gone: 1 } },
    gone: { env: {}, given: [], counts: { web: 2 } },
  });
  const small = { ...wanted, processes: { web: { memoryBytes: 256 * 1024 ** 2 }, worker: {} } };
  assert.equal(await restored.ensureApp(withSettings(small, platform, places), () => undefined), 'created');
  await restored.restoreCounts(platform);
  const { releaseId = '' } = await other.client.call(apps.get, { params: { app: 'controller' } });
  const params = { app: 'controller', release: releaseId };
  const isWanted = { web: 40, worker: 1 };
  assert.deepEqual((await other.client.call(formations.get, { params })).processes, isWanted);
});

test('a part that was to be on hosts which are not here, or to take what none has, comes up without that', async () => {
  await using other = await startTestController({ hosts: 1 });
  const given = limitsOf({ web: processSchema.parse({}), worker: processSchema.parse({}) });
  const onGone = [{ attribute: 'host', operator: 'in' as const, values: ['gone'] }];
  const limits = limitsOf({
    web: processSchema.parse({ constraints: onGone }),
    worker: processSchema.parse({ memoryBytes: 64 * 1024 ** 3 }),
  });
  const counts = { web: 1, worker: 1 };
  const kept = platformWith({ controller: { env: {}, given: [], limits, givenLimits: given, counts } });
  const restored = new Platform(other.client, { signal: AbortSignal.timeout(60_000) });
  assert.equal(await restored.ensureApp(withSettings(wanted, kept, places), () => undefined), 'created');
});
