/** What apps keep on hosts, against a whole controller with simulated hosts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, formations, jobs } from '../api.ts';
import { startGateWorld } from '../access/gate-fixture.ts';
import { emptyVolumeBytes } from '../testing/simulated-host.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { volumes } from './api.ts';
import type { VolumeView } from './api.ts';

const db = { volumes: [{ name: 'data', path: '/data' }] };

const listed = async ({ client }: Pick<TestController, 'client'>, app?: string): Promise<VolumeView[]> =>
  (await client.call(volumes.list, { query: app === undefined ? {} : { app } })).volumes;

async function deployWithVolume(world: TestController, name: string): Promise<VolumeView> {
  const { release, app } = await world.deployApp(name, { db });
  const body = { processes: { db: 1 } };
  await world.client.call(formations.put, { params: { app: app.id, release: release.id }, body });
  await world.jobsOf(name, 1);
  const [volume] = await listed(world, name);
  assert.ok(volume !== undefined);
  return volume;
}

/** Ends all jobs of the app; its volume stays. */
async function scaleToNone(world: TestController, app: string): Promise<void> {
  const { releaseId = '' } = await world.client.call(apps.get, { params: { app } });
  const params = { app, release: releaseId };
  await world.client.call(formations.put, { params, body: { processes: { db: 0 } } });
  await waitFor(async () => (await listed(world, app)).every((one) => one.jobs.length === 0), {
    what: 'the end of its jobs',
    deadlineMs: 60_000,
  });
}

test('a volume is listed with whose it is and who has it; it goes once nobody has it, and not before', async () => {
  await using world = await startTestController();
  const volume = await deployWithVolume(world, 'shop');
  const other = await deployWithVolume(world, 'other');
  await world.deployApp('blobstore', { db }, { isSystem: true });
  const [job] = await world.client.call(jobs.list, { params: { app: 'shop' }, query: {} });
  const { id, createdAt, ...rest } = volume;
  assert.match(id, /^[0-9a-f]{12}$/);
  assert.ok(Date.parse(createdAt) > 0);
  const { id: appId } = await world.client.call(apps.get, { params: { app: 'shop' } });
  assert.deepEqual(rest, {
    name: 'data',
    appId,
    appName: 'shop',
    isAppGone: false,
    type: 'db',
    hostId: job?.hostId,
    jobs: [job?.id],
  });
  assert.deepEqual(
    (await listed(world)).map(({ appName }) => appName),
    ['other', 'shop'],
    "the platform's own are none of anybody's business",
  );
  const measured = await world.client.call(volumes.list, { query: { app: 'shop', sizes: true } });
  assert.deepEqual(measured.volumes, [{ ...volume, bytes: emptyVolumeBytes }]);
  const params = { app: 'shop', volume: id };
  await assert.rejects(world.client.call(volumes.removeOfApp, { params }), (error) => hasCode(error, 'conflict'));
  await scaleToNone(world, 'shop');
  // By another app nobody comes to it.
  await assert.rejects(
    world.client.call(volumes.removeOfApp, { params: { ...params, app: 'other' } }),
    (error) => hasCode(error, 'not_found') && /flynn volume list/.test(error.message),
  );
  await world.client.call(volumes.removeOfApp, { params });
  assert.deepEqual(await listed(world), [other]);
});

test('an app that goes leaves its volumes and says so, or takes them along', async () => {
  await using world = await startTestController();
  const volume = await deployWithVolume(world, 'shop');
  await deployWithVolume(world, 'other');
  const left = await world.client.call(apps.remove, { params: { app: 'shop' } });
  const orphan = { ...volume, isAppGone: true, jobs: [] };
  assert.deepEqual([left.volumes, left.left], [0, { volumes: [orphan], unasked: [] }]);
  assert.deepEqual(
    (await listed(world)).find(({ id }) => id === volume.id),
    orphan,
  );
  await world.client.call(volumes.remove, { params: { volume: volume.id } });
  const gone = await world.client.call(apps.remove, { params: { app: 'other' }, query: { volumes: true } });
  assert.deepEqual([gone.volumes, gone.left], [1, { volumes: [], unasked: [] }]);
  assert.deepEqual(await listed(world), []);
});

test('what a host has that is away is not known, and keeps no app from going', async () => {
  await using world = await startTestController({ hosts: 1 });
  const volume = await deployWithVolume(world, 'shop');
  await world.hosts[0]?.[Symbol.asyncDispose]();
  const { hosts, claims } = world.deps.cell;
  // By its claim it is known that there is such a host.
  await waitFor(() => hosts.snapshot.entries.size === 0 && claims.snapshot.entries.size === 1, {
    what: 'the host to be away',
    deadlineMs: 60_000,
  });
  const { volumes: found, unasked } = await world.client.call(volumes.list, {});
  assert.deepEqual([found, unasked.map(({ hostId }) => hostId)], [[], ['host1']]);
  await assert.rejects(
    world.client.call(volumes.remove, { params: { volume: volume.id } }),
    (error) => hasCode(error, 'not_found') && /host1 did not tell what it has/.test(error.message),
  );
  const counts = await world.client.call(apps.remove, { params: { app: 'shop' }, query: { volumes: true } });
  assert.equal(counts.volumes, 0);
  assert.deepEqual(
    counts.left.unasked.map(({ hostId }) => hostId),
    ['host1'],
  );
});

test('each sees the volumes of apps they may see; those of apps that are gone are for admins', async () => {
  const { world, people, clientOf } = await startGateWorld();
  await using _ = world;
  await deployWithVolume(world, 'kept');
  await deployWithVolume(world, 'gone');
  await world.client.call(apps.remove, { params: { app: 'gone' } });
  const seenBy = async (name: string): Promise<string[]> => {
    await using client = clientOf(people.get(name)?.token ?? '');
    return (await listed({ client })).map(({ appName = '' }) => appName);
  };
  assert.deepEqual(await seenBy('root'), ['gone', 'kept']);
  assert.deepEqual(await seenBy('cluster-viewer'), ['kept']);
  assert.deepEqual(await seenBy('shop-admin'), []);
  await using client = clientOf(people.get('shop-admin')?.token ?? '');
  await assert.rejects(client.call(volumes.list, { query: { app: 'kept' } }), (error) => hasCode(error, 'not_found'));
});
