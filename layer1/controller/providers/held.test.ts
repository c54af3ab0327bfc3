/** What becomes of a resource while an app does not run without it. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { apps, releases } from '../api.ts';
import { makeTestDatastore, withAppliances } from '../datastores/datastore-fixture.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import { resources } from './api.ts';
import type { ResourceView } from './model.ts';
import { isCode, startProvidedWorld } from './provided-fixture.ts';
import type { ProvidedWorld } from './provided-fixture.ts';
import { resourceType } from './types.ts';

let place: ProvidedWorld;
/** Apps whose jobs do not start without NEEDED_URL. */
const needing = new Set<string>();
const until = { deadlineMs: 60_000, intervalMs: 10 };

before(async () => {
  place = await startProvidedWorld();
  place.provider.env = { NEEDED_URL: 'x' };
  place.world.setBehaviour(({ template: { meta, env } }) => {
    const isLost = needing.has(meta['flynn.app_name'] ?? '') && env['NEEDED_URL'] === undefined;
    return isLost ? { is: 'crash', code: 1 } : { is: 'run' };
  });
});
beforeEach(() => {
  needing.clear();
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

/** With a resource of its own, without which it does not start. */
async function makeNeeding(name: string): Promise<ResourceView> {
  await place.world.deployApp(name, { web: {} });
  const made = await place.add({ apps: [name] });
  await place.envOf(name);
  needing.add(name);
  return made;
}

const removeWith = (resource: string, query: { force?: boolean; forget?: boolean }) =>
  place.world.client.call(resources.remove, { params: { resource }, query });

/** Until its app is known to hold it. */
async function untilHeld(id: string): Promise<ResourceView> {
  return waitFor(
    async () => {
      const now = await place.get(id);
      return /an app to run without it/.test(now.waitingFor ?? '') ? now : undefined;
    },
    { what: `${id} to be held`, ...until },
  );
}

test('what an app does not start without is left to it, says so, and goes when it is asked for again and the app runs', async () => {
  const { world, provider, remove, get, envOf } = place;
  const { id } = await makeNeeding('shop');
  const asked = provider.seen.length;
  const left = await remove(id);
  assert.equal(left.isGone, false);
  assert.match(
    left.waitingFor ?? '',
    /^an app to run without it: .*then ask again: flynn resource remove \w+; --force/,
  );
  assert.equal(left.failure?.code, 'conflict');
  assert.deepEqual(await envOf('shop'), { NEEDED_URL: 'x' });
  await world.restartWorker();
  assert.equal((await remove(id)).isGone, false, 'asked again, it is tried again');
  assert.equal((await get(id)).state, 'removing');
  assert.equal(provider.seen.length, asked, 'its provider was not asked');
  assert.equal(provider.made.size, 1);
  needing.clear();
  const gone = await remove(id);
  assert.deepEqual([gone.isGone, gone.apps.length], [true, 1]);
  assert.deepEqual(await envOf('shop'), {});
  assert.equal(provider.made.size, 0);
});

test('it goes by itself once somebody has deployed the app without', async () => {
  const { world, provider, remove, gone } = place;
  const { id } = await makeNeeding('mended');
  assert.equal((await remove(id)).isGone, false);
  needing.clear();
  const bare = await world.client.call(releases.create, { params: { app: 'mended' }, body: { env: {} } });
  assert.equal((await world.deploy('mended', bare.id)).state, 'complete');
  // Sooner than it would look by itself.
  await world.restartWorker();
  await gone(id);
  assert.equal(provider.made.size, 0);
});

test('of several apps each that holds it is waited for; forced, it goes all the same', async () => {
  const { world, provider, envOf, remove } = place;
  const { id } = await makeNeeding('first');
  await world.deployApp('second', { web: {} });
  await world.client.call(resources.addApp, { params: { resource: id, app: 'second' }, body: {} });
  const left = await remove(id);
  assert.equal(left.isGone, false);
  const { apps: holding } = await place.get(id);
  const { id: first } = await world.client.call(apps.get, { params: { app: 'first' } });
  assert.deepEqual(
    holding.map(({ appId, state }) => [appId, state]),
    [[first, 'removing']],
  );
  assert.deepEqual(await envOf('second'), {});
  assert.equal(provider.made.size, 1);
  assert.equal((await removeWith(id, { force: true })).isGone, true);
  assert.equal(provider.made.size, 0);
  assert.deepEqual(await envOf('first'), { NEEDED_URL: 'x' }, 'it serves on as it is');
});

test('an app that is deleted holds nothing, and what is forgotten waits for no app', async () => {
  const { world, provider, remove, gone } = place;
  const { id } = await makeNeeding('leaving');
  assert.equal((await remove(id)).isGone, false);
  await world.client.call(apps.remove, { params: { app: 'leaving' } });
  await gone(id);
  assert.equal(provider.made.size, 0);
  const other = await makeNeeding('bereft');
  assert.equal((await removeWith(other.id, { forget: true })).isGone, true);
  assert.equal(provider.made.size, 1);
  provider.made.clear();
});

test('taken from an app that does not start without it, it is still that app’s, and is not removed beneath it', async () => {
  const { world, provider, remove, get, envOf } = place;
  const { id } = await makeNeeding('kept');
  const params = { resource: id, app: 'kept' };
  await world.client.call(resources.removeApp, { params });
  const held = await untilHeld(id);
  assert.match(held.waitingFor ?? '', /ask again: flynn resource detach/);
  assert.deepEqual(
    held.apps.map(({ state }) => state),
    ['removing'],
  );
  assert.equal((await remove(id)).isGone, false);
  assert.equal(provider.made.size, 1);
  assert.deepEqual(await envOf('kept'), { NEEDED_URL: 'x' });
  needing.clear();
  assert.equal((await remove(id)).isGone, true);

  const other = await makeNeeding('back');
  const again = { resource: other.id, app: 'back' };
  await world.client.call(resources.removeApp, { params: again });
  await untilHeld(other.id);
  await world.client.call(resources.removeApp, { params: again });
  await untilHeld(other.id);
  const { apps: added } = await world.client.call(resources.addApp, { params: again, body: {} });
  assert.deepEqual(
    added.map(({ state }) => state),
    ['added'],
  );
  const isWhole = async () => (await get(other.id)).waitingFor === undefined;
  await waitFor(isWhole, { what: 'nothing to be waited for', ...until });
  needing.clear();
  await world.client.call(resources.removeApp, { params: again });
  assert.deepEqual(await envOf('back'), {});
  await waitFor(async () => (await get(other.id)).apps.length === 0, { what: 'its being given back', ...until });
  await assert.rejects(
    world.client.call(resources.removeApp, { params: again }),
    isCode('not_found', /back does not have/),
  );
  assert.equal((await remove(other.id)).isGone, true);
});

test('what another variable is made of is held by it until that is another', async () => {
  const { world, provider, remove, envOf } = place;
  const { id } = await makeNeeding('referring');
  const params = { app: 'referring' };
  const env = await envOf('referring');
  const references = { POOL_URL: '${NEEDED_URL}?pool=5' };
  const made = await world.client.call(releases.create, { params, body: { env, references } });
  assert.equal((await world.deploy('referring', made.id)).state, 'complete');
  const detached = world.client.call(resources.removeApp, { params: { resource: id, app: 'referring' } });
  await assert.rejects(detached, isCode('invalid', /referring: .*POOL_URL/));
  const left = await remove(id);
  assert.equal(left.isGone, false);
  assert.match(left.waitingFor ?? '', /it cannot have a release without its variables \(.*POOL_URL.*\)\. Make it run/);
  const before = (await world.client.call(releases.list, { params })).length;
  await world.restartWorker();
  assert.equal((await remove(id)).isGone, false);
  assert.equal((await world.client.call(releases.list, { params })).length, before);
  assert.equal(provider.made.size, 1);
  needing.clear();
  const own = await world.client.call(releases.create, { params, body: { env, references: {} } });
  assert.equal((await world.deploy('referring', own.id)).state, 'complete');
  assert.equal((await remove(id)).isGone, true);
});

test('a database of the platform’s own stays as well, and so does who is to log in', async () => {
  await using world = await startTestController(withAppliances);
  await world.deployApp('shop', { web: {} });
  const { id, resourceId } = await makeTestDatastore(world, { app: 'shop' });
  world.setBehaviour(({ template: { meta, env } }) =>
    meta['flynn.app_name'] === 'shop' && env['DATABASE_URL'] === undefined ? { is: 'crash', code: 1 } : { is: 'run' },
  );
  const params = { resource: resourceId };
  const left = await world.client.call(resources.remove, { params });
  assert.match(left.waitingFor ?? '', /^an app to run without it/);
  assert.equal((await world.deps.resources.get(appType, id)).deletingSince, undefined);
  assert.equal((await world.client.call(resources.get, { params })).variables.includes('PGPASSWORD'), true);
  await world.client.call(resources.remove, { params, query: { force: true } });
  const isGone = async () => (await world.deps.resources.find(resourceType, resourceId)) === undefined;
  await waitFor(isGone, { what: 'its end', ...until });
});
