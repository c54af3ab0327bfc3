/** What changes between a push's release and its deployment, against a whole controller with simulated hosts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, deployments, formations, releases } from '@flynn/controller/api';
import { parseAppJson } from '@flynn/controller/apps/app-json';
import { waitFor } from '@flynn/kit/retry';
import { behave, outcome, push, startRunner, startWorld } from './runner-fixture.ts';

test('what is set between a push’s release and its deployment stays, with a release that has both', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const { client, store } = world.controller;
  const params = { app: 'shop' };
  const first = await push(world, {});
  {
    await using _runner = startRunner(world);
    await outcome(world, first[2]?.id);
  }
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    const done = await transact(transaction, options);
    const isRelease = /resource\/release\/.*git\.commit/.test(JSON.stringify(transaction.then));
    if (isRelease && done.succeeded) {
      store.transact = transact;
      const { id } = await client.call(releases.create, { params, body: { env: { A: '1' } } });
      await client.call(deployments.create, { params, body: { releaseId: id } });
    }
    return done;
  };
  const chain = await push(world, { processTypes: { web: 'node other.js' } });
  await using _runner = startRunner(world);
  const { operation, lines } = await outcome(world, chain[2]?.id);
  assert.equal(operation.state, 'complete', lines.join('\n'));
  assert.match(lines.join('\n'), /The app was changed meanwhile: v4 has that too/);
  const { releaseId = '' } = await client.call(apps.get, { params });
  const live = await client.call(releases.get, { params: { ...params, release: releaseId } });
  assert.equal(live.version, 4);
  assert.deepEqual(live.env, { A: '1' });
  assert.match(JSON.stringify(live.processes['web']?.command), /other\.js/);
  assert.equal(live.meta['git.commit'], 'c0ffee');
});

test('nor is what the first push begins with lost by it', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const { client, store } = world.controller;
  const params = { app: 'shop' };
  const transact = store.transact.bind(store);
  const formationOf = (release: string) => client.call(formations.get, { params: { ...params, release } });
  store.transact = async (transaction, options) => {
    const done = await transact(transaction, options);
    // The counts of the release: it is as it will be deployed.
    const isPrepared = /resource\/formation\//.test(JSON.stringify(transaction.then));
    if (isPrepared && done.succeeded) {
      store.transact = transact;
      const [first] = await client.call(releases.list, { params });
      assert.ok(first !== undefined);
      const { artifactId = '', processes, meta } = first;
      const body = { artifactId, processes, meta, env: { A: '1' } };
      const { id } = await client.call(releases.create, { params, body });
      await client.call(deployments.create, { params, body: { releaseId: id } });
    }
    return done;
  };
  const chain = await push(world, {
    processTypes: { web: 'node server.js', worker: 'node worker.js' },
    appJson: parseAppJson('{ "formation": { "worker": { "quantity": 2 } } }'),
  });
  await using _runner = startRunner(world);
  const { operation, lines } = await outcome(world, chain[2]?.id);
  assert.equal(operation.state, 'complete', lines.join('\n'));
  const { releaseId = '' } = await client.call(apps.get, { params });
  const live = await client.call(releases.get, { params: { ...params, release: releaseId } });
  assert.deepEqual(live.env, { A: '1' });
  assert.deepEqual((await formationOf(releaseId)).processes, { web: 1, worker: 2 });
});

test('what is set in the moment in which the first push makes its release is in what goes live', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const { client } = world.controller;
  const params = { app: 'shop' };
  once(world, /resource\/release\/.*git\.commit/, () =>
    client.call(releases.create, { params, body: { env: { A: '1' }, processes: {}, basis: null } }),
  );
  const chain = await push(world, { appJson: parseAppJson('{ "env": { "B": "of app.json" } }') });
  await using _runner = startRunner(world);
  const { operation, lines } = await outcome(world, chain[2]?.id);
  assert.equal(operation.state, 'complete', lines.join('\n'));
  assert.deepEqual((await liveRelease(world)).env, { A: '1', B: 'of app.json' });
});

test('what goes live in the moment in which a push is deployed is not taken back', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const { client } = world.controller;
  const params = { app: 'shop' };
  const first = await push(world, {});
  {
    await using _runner = startRunner(world);
    await outcome(world, first[2]?.id);
  }
  const isThrough = async () =>
    (await client.call(deployments.list, { params })).every(({ state }) => state === 'complete');
  await waitFor(isThrough, { what: 'its first deployment to end', deadlineMs: 30_000 });
  once(world, /resource\/deployment\//, async () => {
    const { id } = await client.call(releases.create, { params, body: { env: { A: '1' } } });
    await world.controller.deploy('shop', id);
  });
  const chain = await push(world, { processTypes: { web: 'node other.js' } });
  await using _runner = startRunner(world);
  const { operation, lines } = await outcome(world, chain[2]?.id);
  assert.equal(operation.state, 'complete', lines.join('\n'));
  assert.match(lines.join('\n'), /The app was changed meanwhile: v4 has that too/);
  const live = await liveRelease(world);
  assert.deepEqual(live.env, { A: '1' });
  assert.match(JSON.stringify(live.processes['web']?.command), /other\.js/);
});

type World = Awaited<ReturnType<typeof startWorld>>;

/** Right before the first write that is such. */
function once({ controller: { store } }: World, pattern: RegExp, act: () => Promise<unknown>): void {
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    if (!pattern.test(JSON.stringify(transaction.then))) return transact(transaction, options);
    store.transact = transact;
    await act();
    return transact(transaction, options);
  };
}

async function liveRelease({ controller: { client } }: World) {
  const params = { app: 'shop' };
  const { releaseId = '' } = await client.call(apps.get, { params });
  return client.call(releases.get, { params: { ...params, release: releaseId } });
}
