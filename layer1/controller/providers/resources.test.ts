import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, releases } from '../api.ts';
import { deploymentControls } from '../deployments/api-controls.ts';
import { providers, resources } from './api.ts';
import type { ResourceView } from './model.ts';
import { isCode, startProvidedWorld } from './provided-fixture.ts';
import type { ProvidedWorld } from './provided-fixture.ts';
import { answeredByRouter, answers } from './test-provider.ts';

let place: ProvidedWorld;
before(async () => {
  place = await startProvidedWorld();
});
beforeEach(() => {
  place.provider.misbehaves = undefined;
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

async function setEnv(app: string, env: Record<string, string>): Promise<void> {
  const { world, envOf } = place;
  const before = await envOf(app);
  const release = await world.client.call(releases.create, { params: { app }, body: { env: { ...before, ...env } } });
  assert.equal((await world.deploy(app, release.id)).state, 'complete');
}

test('an app gets what a provider gave as a release that is rolled out, and gives back what it has not changed', async () => {
  const { world, provider, add, remove, get, envOf } = place;
  await world.deployApp('shop', { web: {} });
  await setEnv('shop', { GREETING: 'hello' });
  provider.env = { DATABASE_URL: 'postgres://u:hunter2@db/shop', PGUSER: 'u' };
  const made = await add({ apps: ['shop'], config: { size: 'small' } });
  assert.equal(made.state, 'ready');
  assert.deepEqual(made.variables, ['DATABASE_URL', 'PGUSER']);
  assert.deepEqual(
    made.apps.map(({ state, version, deploymentId }) => [state, version, typeof deploymentId]),
    [['added', 3, 'string']],
  );
  assert.deepEqual(provider.seen.at(-1)?.config, { size: 'small' });
  assert.equal(provider.seen.at(-1)?.authorization, 'Bearer hunter3');
  assert.deepEqual(await envOf('shop'), { GREETING: 'hello', ...provider.env });
  await setEnv('shop', { PGUSER: 'mine' });
  const removed = await remove(made.id);
  assert.equal(removed.isGone, true);
  assert.deepEqual(await envOf('shop'), { GREETING: 'hello', PGUSER: 'mine' });
  assert.deepEqual([...provider.made], []);
  await assert.rejects(get(made.id), isCode('not_found', /flynn resource/));
});

test('jobs that were started with it have it until they have ended, whatever becomes of the deployments after', async () => {
  const { world, provider, add, remove, get, envOf } = place;
  const { client, hosts } = world;
  await world.deployApp('drained', { web: {} });
  const params = { app: 'drained' };
  provider.env = { QUEUE_URL: 'amqp://q' };
  world.setBehaviour(() => ({ is: 'run', lingers: true }));
  const made = await add({ apps: ['drained'] });
  assert.deepEqual(await envOf('drained'), provider.env);
  const [old] = await world.jobsOf('drained', 1);
  world.setBehaviour(() => ({ is: 'run' }));
  const live = async () => client.call(apps.get, { params });
  const before = (await live()).releaseId;
  const removing = remove(made.id);
  await waitFor(async () => (await live()).releaseId !== before, { what: 'the release without', deadlineMs: 30_000 });
  world.setBehaviour(() => ({ is: 'crash', code: 1 }));
  const { id: releaseId } = await world.makeRelease('drained', { web: {} });
  const { id } = await client.call(deployments.create, { params, body: { releaseId } });
  assert.equal((await world.endOf(id)).state, 'failed');
  world.setBehaviour(() => ({ is: 'run' }));
  const waits = async () => /jobs of an app .* to end/.test((await get(made.id)).waitingFor ?? '');
  await waitFor(waits, { what: 'its waiting for them', deadlineMs: 30_000 });
  assert.equal(provider.made.size, 1);
  await hosts.find(({ id: hostId }) => hostId === old?.hostId)?.end(old?.id ?? '', 0);
  assert.equal((await removing).isGone, true);
  assert.equal(provider.made.size, 0);
});

test('names that the app has with another value are refused, nothing stays, and asked to it replaces them', async () => {
  const { world, provider, add, remove, envOf } = place;
  await world.deployApp('taken', { web: {} });
  provider.env = { DATABASE_URL: 'postgres://new' };
  await setEnv('taken', { DATABASE_URL: 'postgres://old' });
  await assert.rejects(
    add({ apps: ['taken'] }),
    isCode('conflict', /taken has DATABASE_URL already.*nothing was added/),
  );
  await waitFor(() => provider.made.size === 0, { what: 'its being taken back', deadlineMs: 60_000, intervalMs: 10 });
  assert.deepEqual(await envOf('taken'), { DATABASE_URL: 'postgres://old' });
  const made = await add({ apps: ['taken'], isReplacing: true });
  assert.deepEqual(await envOf('taken'), { DATABASE_URL: 'postgres://new' });
  assert.equal((await remove(made.id)).isGone, true);
});

test('an app that has nothing to run yet gets a release that takes effect with its first push', async () => {
  const { world, provider, add, remove } = place;
  await world.client.call(apps.create, { body: { name: 'young' } });
  provider.env = { REDIS_URL: 'redis://x' };
  const made = await add({ apps: ['young'] });
  assert.deepEqual([made.apps[0]?.version, made.apps[0]?.deploymentId], [1, undefined]);
  const [release] = await world.client.call(releases.list, { params: { app: 'young' } });
  assert.deepEqual(release?.env, provider.env);
  assert.equal((await remove(made.id)).isGone, true);
  const [last] = await world.client.call(releases.list, { params: { app: 'young' } });
  assert.deepEqual(last?.env, {});
});

test('an app that somebody has to deploy first, for what it links, has what it was given with that', async () => {
  const { world, provider, add, remove } = place;
  const { client } = world;
  const announcing = { web: { ports: [{ port: 80, service: { name: 'theirs' } }] } };
  const { release } = await world.deployApp('theirs', announcing);
  await client.call(apps.create, { body: { name: 'linking' } });
  const params = { app: 'linking' };
  const { artifactId = '' } = release;
  const body = { artifactId, processes: { web: { links: ['theirs'] } } };
  await client.call(releases.create, { params, body });
  provider.env = { DATABASE_URL: 'postgres://linking' };
  const made = await add({ apps: ['linking'] });
  assert.deepEqual(
    made.apps.map(({ state, version, deploymentId }) => [state, version, deploymentId]),
    [['added', 2, undefined]],
  );
  const [newest] = await client.call(releases.list, { params });
  assert.deepEqual(newest?.env, provider.env);
  assert.equal((await world.deploy('linking', newest?.id ?? '')).state, 'complete');
  assert.equal((await remove(made.id)).isGone, true);
});

test('what the provider refuses is told in its words, one that is away is unavailable, and of neither anything stays', async () => {
  const { world, provider, add } = place;
  const params = { app: 'young' };
  const before = (await world.client.call(releases.list, { params })).length;
  provider.misbehaves = answers(422, '{"message":"there is no such plan"}');
  await assert.rejects(add({ apps: ['young'] }), isCode('invalid', /pg refuses this \(422: there is no such plan\)/));
  provider.misbehaves = answers(403, '');
  await assert.rejects(add({ apps: ['young'] }), isCode('denied', /the right token/));
  await provider.close();
  await assert.rejects(add({ apps: ['young'] }), (error) => {
    assert.ok(hasCode(error, 'unavailable') && error.detail['isFinal'] === true);
    return /pg cannot be reached.*nothing was added/.test(error.message);
  });
  // A connection that stood may have heard of it: then it is asked once more, to take back what there may be.
  provider.misbehaves = undefined;
  await provider.listen();
  await waitFor(async () => (await world.client.call(resources.list, {})).length === 0, {
    what: 'nothing to be left',
    deadlineMs: 60_000,
    intervalMs: 10,
  });
  assert.equal((await world.client.call(releases.list, { params })).length, before);
  await assert.rejects(add({ apps: ['young', 'nowhere'] }), isCode('not_found', /nowhere/));
});

test('a provider that dies after it made something is asked to take it back once it answers', async () => {
  const { world, provider, add, gone } = place;
  provider.misbehaves = 'lost';
  const seen = provider.seen.length;
  await assert.rejects(add({ apps: ['young'] }), isCode('unavailable', /cannot be reached/));
  assert.equal(provider.made.size, 1);
  const [left] = await world.client.call(resources.list, {});
  assert.equal(left?.state, 'removing');
  provider.misbehaves = undefined;
  await gone(left?.id ?? '');
  assert.equal(provider.made.size, 0);
  const keys = new Set(provider.seen.slice(seen).flatMap(({ key }) => key ?? []));
  assert.equal(keys.size, 1, 'always the same wish');
});

test('what may have been made is not taken for gone because it is refused, or not found by a router, later', async () => {
  const { world, provider, add, remove, get, gone } = place;
  provider.misbehaves = 'lost';
  await assert.rejects(add({ apps: ['young'] }), isCode('unavailable', /cannot be reached/));
  const [{ id } = { id: '' }] = await world.client.call(resources.list, {});
  provider.misbehaves = answers(422, '{"message":"no such plan any more"}');
  const isTold = async () => /no such plan any more\): look .* --forget/.test((await get(id)).waitingFor ?? '');
  await waitFor(isTold, { what: 'its being refused', deadlineMs: 60_000, intervalMs: 10 });
  assert.equal(provider.made.size, 1);
  provider.misbehaves = undefined;
  await gone(id);
  assert.equal(provider.made.size, 0);

  const made = await add({ apps: ['young'] });
  provider.misbehaves = answeredByRouter(404, 'unknown-host');
  const waiting = await remove(made.id);
  assert.equal(waiting.isGone, false);
  assert.match(waiting.waitingFor ?? '', /its router answered 404/);
  provider.misbehaves = undefined;
  await gone(made.id);
  assert.equal(provider.made.size, 0);
});

test('a controller that dies between the record and the answer is followed by one that asks with the same key', async () => {
  const { world, provider, add, remove } = place;
  const asked = provider.seen.length;
  const first = Promise.withResolvers<void>();
  provider.misbehaves = (request) => {
    first.resolve();
    request.socket.on('error', () => {});
  };
  await world.client.call(apps.create, { body: { name: 'patient' } });
  const answer = add({ apps: ['patient'] });
  await first.promise;
  provider.misbehaves = undefined;
  await world.restartWorker();
  const made = await answer;
  assert.equal(made.state, 'ready');
  assert.deepEqual(
    made.apps.map(({ state }) => state),
    ['added'],
  );
  const keys = provider.seen.slice(asked).map(({ key }) => key);
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.equal(provider.made.size, 1);
  assert.equal((await remove(made.id)).isGone, true);
});

test('while its provider is away, a resource that is to go says what it waits for', async () => {
  const { world, provider, add, remove, get, gone } = place;
  const made = await add({ apps: ['young'] });
  await provider.close();
  const waiting = await remove(made.id);
  assert.equal(waiting.isGone, false);
  assert.match(waiting.waitingFor ?? '', /its provider to take it back: the provider pg cannot be reached/);
  assert.equal((await get(made.id)).state, 'removing');
  await assert.rejects(
    world.client.call(providers.remove, { params: { provider: 'pg' } }),
    isCode('conflict', new RegExp(`pg has given ${made.id}: remove it first`)),
  );
  await provider.listen();
  await gone(made.id);
  assert.equal(provider.made.size, 0);
});

test('an admin has a resource forgotten whose provider is gone for good; its apps give it back all the same', async () => {
  const { world, provider, add, remove, envOf, gone } = place;
  await world.deployApp('bereft', { web: {} });
  provider.env = { LOST_URL: 'x' };
  const first = await add({ apps: ['bereft'] });
  await envOf('bereft');
  const second = await add({ apps: ['bereft'] });
  const asked = provider.seen.length;
  await provider.close();
  assert.equal((await remove(first.id)).isGone, false);
  const query = { forget: true };
  for (const { id } of [first, second]) {
    assert.equal((await world.client.call(resources.remove, { params: { resource: id }, query })).isGone, true);
    await gone(id);
  }
  assert.deepEqual(await envOf('bereft'), {});
  await provider.listen();
  assert.equal(provider.seen.length, asked, 'it was not asked any more');
  assert.equal(provider.made.size, 2, 'what it made is there still');
  provider.made.clear();
});

test('one resource may be of several apps; with the last of them it goes, and the deletion says so', async () => {
  const { world, provider, add, get, envOf, gone } = place;
  await world.deployApp('one', { web: {} });
  await world.deployApp('two', { web: {} });
  provider.env = { SHARED: 'x' };
  const made = await add({ apps: ['one'] });
  const params = { resource: made.id, app: 'two' };
  const both: ResourceView = await world.client.call(resources.addApp, { params, body: {} });
  assert.deepEqual(
    both.apps.map(({ state }) => state),
    ['added', 'added'],
  );
  assert.deepEqual(await envOf('two'), { SHARED: 'x' });
  assert.deepEqual((await world.client.call(resources.addApp, { params, body: {} })).apps, both.apps);
  await world.client.call(resources.removeApp, { params });
  assert.deepEqual(await envOf('two'), {});
  await world.client.call(resources.addApp, { params, body: {} });
  await envOf('two');
  const own = await world.client.call(resources.ofApp, { params: { app: 'two' } });
  assert.deepEqual(
    own.map(({ id }) => id),
    [made.id],
  );
  assert.equal((await world.client.call(apps.remove, { params: { app: 'one' } })).resources, 0);
  assert.equal((await get(made.id)).apps.length, 1);
  assert.equal((await world.client.call(apps.remove, { params: { app: 'two' } })).resources, 1);
  await gone(made.id);
  assert.equal(provider.made.size, 0);
});

test('what an app has is replaced or stays, and is taken back also while it is being replaced', async () => {
  const { world, provider, add, get, remove, envOf } = place;
  await world.deployApp('again', { web: {} });
  provider.env = { AGAIN_URL: 'x'.repeat(50_000) };
  const made = await add({ apps: ['again'] });
  const given = await envOf('again');
  const ofApp = { params: { app: 'again' } };
  const references = { THRICE: '${AGAIN_URL}'.repeat(3) };
  const own = await world.client.call(releases.create, { ...ofApp, body: { env: { AGAIN_URL: 'mine' }, references } });
  assert.equal((await world.deploy('again', own.id)).state, 'complete');
  const params = { resource: made.id, app: 'again' };
  const replace = () => world.client.call(resources.addApp, { params, body: { isReplacing: true } });
  await assert.rejects(replace(), isCode('invalid', /THRICE/));
  const { apps: kept, waitingFor } = await get(made.id);
  assert.deepEqual(
    [kept.map(({ state, failure }) => [state, failure]), waitingFor],
    [[['added', undefined]], undefined],
  );

  await setEnv('again', given);
  const other = await world.client.call(releases.create, { ...ofApp, body: { env: { ...given, OTHER: '1' } } });
  const held = { releaseId: other.id, rollout: { strategy: 'canary' as const } };
  const begun = await world.client.call(deployments.create, { ...ofApp, body: held });
  const replacing = replace();
  await waitFor(async () => (await get(made.id)).apps.some(({ state }) => state === 'adding'), {
    what: 'its being replaced',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  const removed = remove(made.id);
  await world.client.call(deploymentControls.abort, { params: { deployment: begun.id }, body: {} });
  await Promise.all([removed, replacing]);
  await waitFor(async () => (await envOf('again'))['AGAIN_URL'] === undefined, {
    what: 'its being taken back',
    deadlineMs: 60_000,
    intervalMs: 50,
  });
});

test('an app goes though the provider of what it had is away, which is asked to take that back when it answers', async () => {
  const { world, provider, add, get, gone } = place;
  await world.client.call(apps.create, { body: { name: 'leaving' } });
  const made = await add({ apps: ['leaving'] });
  await provider.close();
  assert.equal((await world.client.call(apps.remove, { params: { app: 'leaving' } })).resources, 1);
  const { state, apps: left } = await get(made.id);
  assert.deepEqual([state, left], ['removing', []]);
  await provider.listen();
  await gone(made.id);
  assert.equal(provider.made.size, 0);
});
