/** Nobody's change of an app takes back another's: who makes a release, or deploys one, says what they saw. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, deployments, releases } from '../api.ts';
import { isOvertaken, overtaken, withSeen } from './overtaken.ts';
import { startTestController } from '../testing.ts';

const params = { app: 'shop' };

test('a release of what is live no more is refused', async () => {
  await using world = await startTestController();
  const { client } = world;
  const { release: first } = await world.deployApp('shop', { web: {} });
  const { artifactId = '', processes } = first;
  const body = { artifactId, processes, env: { A: '1' }, basis: first.id };
  const second = await client.call(releases.create, { params, body });
  await client.call(releases.create, { params, body }).then(({ id }) => assert.notEqual(id, second.id));
  await world.deploy('shop', second.id);
  await assert.rejects(client.call(releases.create, { params, body }), isOvertaken);
  await assert.rejects(client.call(releases.create, { params, body: { ...body, basis: null } }), isOvertaken);
  const third = await client.call(releases.create, { params, body: { ...body, basis: second.id } });
  assert.equal(third.version, 4);
});

test('a deployment in the place of what is live no more is refused, but for that of what is', async () => {
  await using world = await startTestController();
  const { client } = world;
  const { release: first } = await world.deployApp('shop', { web: {} });
  const second = await world.makeRelease('shop', { web: {} });
  const third = await world.makeRelease('shop', { web: {} });
  const start = (releaseId: string, replaces: string | null) =>
    client.call(deployments.create, { params, body: { releaseId, replaces } });
  await assert.rejects(start(second.id, null), isOvertaken);
  await assert.rejects(start(second.id, third.id), isOvertaken);
  const { id } = await start(second.id, first.id);
  await world.endOf(id);
  await assert.rejects(start(third.id, first.id), isOvertaken);
  assert.equal((await start(second.id, first.id)).state, 'complete', 'who asks again did not hear that it is live');
  assert.equal((await client.call(apps.get, { params })).releaseId, second.id);
});

test('before the first deployment what is made of the newest has what others make at the same time', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  const transact = store.transact.bind(store);
  const meanwhile = (act: () => Promise<unknown>) => {
    store.transact = async (transaction, options) => {
      if (!JSON.stringify(transaction.then).includes('/flynn/resource/release/')) return transact(transaction, options);
      store.transact = transact;
      await act();
      return transact(transaction, options);
    };
  };
  const set = (env: Record<string, string>, basis: string | null) =>
    client.call(releases.create, { params, body: { env, processes: {}, basis } });

  meanwhile(() => set({ A: '1' }, null));
  const pushed = await world.makeRelease('shop', { web: {} });
  assert.deepEqual(pushed.env, { A: '1' });
  await assert.rejects(set({ B: '2' }, null), isOvertaken);
  meanwhile(() => set({ A: '1', B: '2' }, pushed.id));
  await assert.rejects(set({ A: '1', C: '3' }, pushed.id), isOvertaken);
  const [newest] = await client.call(releases.list, { params });
  assert.deepEqual(newest?.env, { A: '1', B: '2' });
});

test('a controller of a version before is asked without what it does not know, once somebody has looked', async () => {
  const asked: object[] = [];
  let looks = 0;
  const refuse = (unknown: string[]) => (seen: object) => {
    asked.push(seen);
    if (Object.keys(seen).length > 0) throw new FlynnError('invalid', 'unknown fields', { detail: { unknown } });
    return Promise.resolve('done');
  };
  const look = async () => void (looks += 1);
  assert.equal(await withSeen({ basis: null }, async (seen) => refuse(['basis'])(seen), look), 'done');
  assert.deepEqual(asked, [{ basis: null }, {}]);
  assert.equal(looks, 1);
  await assert.rejects(
    withSeen({ basis: null }, async (seen) => refuse(['basis', 'colour'])(seen), look),
    /unknown fields/,
  );
  const gone = async () => {
    throw overtaken('shop');
  };
  await assert.rejects(
    withSeen({ basis: null }, async (seen) => refuse(['basis'])(seen), gone),
    isOvertaken,
  );
  assert.equal(asked.length, 4);
});
