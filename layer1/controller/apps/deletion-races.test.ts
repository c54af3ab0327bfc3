/** What is asked for an app at the very moment somebody deletes it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { waitFor } from '@flynn/kit/retry';
import { resourceKey } from '@flynn/resource/keys';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, jobs, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { operations } from '../operations/api.ts';
import { appFinalizer, appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import { beforeWrite } from '../testing/race-fixture.ts';

const params = { app: 'doomed' };
const push = { pushId: 'p', sourceDigest: 'd', commit: 'c', branch: 'main' };

const requests: Record<string, (client: HttpClient) => Promise<unknown>> = {
  'a one-off job': (client) => client.call(jobs.run, { params, body: { command: ['sleep'] } }),
  'a build': (client) => client.call(jobs.build, { params, body: { operationId: 'build-x', sourceDigest: 'd' } }),
  'a push': (client) => client.call(operations.push, { params, body: push }),
  'a route': (client) => client.call(routing.create, { params, body: { domain: 'doomed.example.com' } }),
  'a port': (client) => client.call(routing.create, { params, body: { type: 'tcp' } }),
};

for (const [what, ask] of Object.entries(requests)) {
  test(`${what} of an app that is deleted before it is written leaves nothing behind`, async () => {
    const store = createMemoryStore();
    await using world = await startTestController({ store });
    await world.deployApp('slug-builder', { build: { command: ['/build'] } }, { isSystem: true });
    const { app } = await world.deployApp('doomed', { web: { ports: [{ port: 8080 }] } });
    const transact = store.transact.bind(store);
    let isDeleted = false;
    store.transact = async (transaction, options) => {
      if (!JSON.stringify(transaction.then).includes(app.id)) return transact(transaction, options);
      isDeleted = true;
      store.transact = transact;
      await world.client.call(apps.remove, { params });
      return transact(transaction, options);
    };
    await assert.rejects(
      ask(world.client),
      (error) => hasCode(error, 'not_found') && /no app "doomed"/.test(error.message),
    );
    assert.ok(isDeleted);
    const { entries } = await store.list('/flynn/');
    const left = entries.filter(({ key, value }) => key.includes(app.id) || value.includes(app.id));
    assert.deepEqual(
      left.map(({ key }) => key),
      [],
    );
  });
}

test('a release of an app that is going by the time it is written is refused, and leaves nothing behind', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { app } = await world.deployApp('doomed', { web: {} });
  await world.stopWorker();
  let removing: Promise<unknown> | undefined;
  const isMarked = async () => (await world.deps.resources.get(appType, app.id)).deletingSince !== undefined;
  beforeWrite(store, '"put":"/flynn/resource/release/', async () => {
    removing = world.client.call(apps.remove, { params });
    await waitFor(isMarked, { what: 'the mark', deadlineMs: 30_000, intervalMs: 5 });
  });
  const made = world.client.call(releases.create, { params, body: { env: { A: 'secret' } } });
  await assert.rejects(made, (error) => hasCode(error, 'conflict') && /is being deleted/.test(error.message));
  await world.restartWorker();
  await removing;
  const { entries } = await store.list('/flynn/');
  const left = entries.filter(({ key, value }) => key.includes(app.id) || value.includes(app.id));
  assert.deepEqual(
    left.map(({ key }) => key),
    [],
  );
});

test('what comes to an app between the look at what it has and its end is looked for again', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { app, release } = await world.deployApp('doomed', { web: {} });
  const key = resourceKey('release', 'late');
  beforeWrite(store, `"delete":"${resourceKey('release', release.id)}"`, async () => {
    const { value = '' } = (await store.get(resourceKey('release', release.id))) ?? {};
    await store.transact({ then: [{ put: key, value: value.replaceAll(release.id, 'late') }] });
    await world.deps.resources.change(appType, app.id, () => ({ labels: { made: 'late' } }));
  });
  await world.client.call(apps.remove, { params });
  assert.equal(await store.get(key), undefined);
});

test('a deletion with volumes that does not come about leaves no word of them', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { app } = await world.deployApp('doomed', { web: {} });
  beforeWrite(store, 'deletingSince', () => Promise.reject(new FlynnError('invalid', 'the store is full')));
  await assert.rejects(world.client.call(apps.remove, { params, query: { volumes: true } }), /the store is full/);
  const { spec, deletingSince } = await world.deps.resources.get(appType, app.id);
  assert.deepEqual([spec.removesVolumes, deletingSince], [false, undefined]);
});

test('what another app takes over of one that goes it keeps', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { release } = await world.deployApp('doomed', { web: {} });
  await world.deployApp('heir', { web: {} });
  const artifactId = release.artifactId ?? '';
  const heir = { app: 'heir' };
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    if (JSON.stringify(transaction.then).includes(`"delete":"/flynn/resource/artifact/${artifactId}"`)) {
      store.transact = transact;
      await world.client
        .call(releases.create, { params: heir, body: { artifactId, env: {}, processes: { web: {} } } })
        .catch((error: unknown) => assert.ok(hasCode(error, 'conflict', 'not_found'), String(error)));
    }
    return transact(transaction, options);
  };
  await world.client.call(apps.remove, { params });
  const made = await world.client.call(releases.list, { params: heir });
  for (const { artifactId: id = '' } of made)
    await world.client.call(releases.getArtifact, { params: { artifact: id } });
});

test('a record of it that cannot be read for now keeps an app that goes, which says so; then it goes with all it has', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { app, release } = await world.deployApp('doomed', { web: {} });
  await world.deployApp('other', { web: {} });
  const key = resourceKey('release', release.id);
  const { value = '' } = (await store.get(key)) ?? {};
  const write = (text: string) => store.transact({ then: [{ put: key, value: text }] });
  await write(JSON.stringify({ ...JSON.parse(value), version: 1_000 }));
  await world.client.call(apps.remove, { params: { app: 'other' } });
  const removing = world.client.call(apps.remove, { params });
  const word = async () => (await world.deps.resources.get(appType, app.id)).waitingFor[appFinalizer] ?? '';
  await waitFor(async () => (await word()).includes(key), { what: 'it to say what it waits for', deadlineMs: 30_000 });
  await write(value);
  await removing;
  assert.equal(await store.get(key), undefined);
});
