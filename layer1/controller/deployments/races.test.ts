/** What changes of an app between two steps of a deployment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, deployments, formations, releases } from '../api.ts';
import { deploymentType } from '../resources.ts';
import { beforeWrite } from '../testing/race-fixture.ts';
import { startTestController } from '../testing.ts';

test('an app that is scaled while its deployment begins is rolled out as it was scaled', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { release } = await world.deployApp('shop', { web: {} });
  const next = await world.makeRelease('shop', { web: {} });
  const params = { app: 'shop', release: release.id };
  beforeWrite(store, '/flynn/resource/deployment/', () =>
    world.client.call(formations.put, { params, body: { processes: { web: 3 } } }),
  );
  assert.equal((await world.deploy('shop', next.id)).state, 'complete');
  const formation = await world.client.call(formations.get, { params: { app: 'shop', release: next.id } });
  assert.deepEqual(formation.processes, { web: 3 });
  await world.jobsOf('shop', 3);
  const [begun] = await world.client.call(deployments.list, { params: { app: 'shop' } });
  assert.equal(begun?.progress['web']?.wanted, 3);
});

test('a step that is written while its app goes starts nothing that outlives it', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { app, release } = await world.deployApp('doomed', { web: {} });
  const params = { app: 'doomed' };
  await world.client.call(formations.put, {
    params: { ...params, release: release.id },
    body: { processes: { web: 5 } },
  });
  await world.jobsOf('doomed', 5);
  const next = await world.makeRelease('doomed', { web: {} });
  const stepping = Promise.withResolvers<void>();
  const removing = Promise.withResolvers<void>();
  const stepped = Promise.withResolvers<void>();
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    const text = JSON.stringify(transaction.then);
    if (text.includes('steppedAt') && text.includes(`workloads/${app.id}`)) {
      stepping.resolve();
      await removing.promise;
      return transact(transaction, options).finally(stepped.resolve);
    }
    if (text.includes(`"deletePrefix":"/flynn/cell/templates/${app.id}-"`)) {
      removing.resolve();
      await stepped.promise;
    }
    return transact(transaction, options);
  };
  await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  await stepping.promise;
  await world.client.call(apps.remove, { params });
  const { entries } = await store.list('/flynn/');
  assert.deepEqual(
    entries.map(({ key }) => key).filter((key) => key.includes(app.id)),
    [],
  );
});

test('old jobs that were told to stop do not answer for the new ones that are taken away', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { release: old } = await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  await world.client.call(formations.put, { params: { ...params, release: old.id }, body: { processes: { web: 5 } } });
  await world.jobsOf('shop', 5);
  const next = await world.makeRelease('shop', { web: {} });
  let started = 0;
  world.setBehaviour((job) => {
    if (job.template.meta['flynn.release'] !== next.id) return { is: 'run' };
    started += 1;
    return started <= 4 ? { is: 'run' } : { is: 'fail', error: 'no' };
  });
  // Nothing more is heard of old jobs: a host takes its time to have routers drop one before it says that it stops.
  const heard = Promise.withResolvers<void>();
  let isHeard = false;
  let isEarly = false;
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    const text = JSON.stringify(transaction.then);
    if (text.includes('"put":"/flynn/cell/status/') && text.includes(old.id)) await heard.promise;
    const isRemoval = text.includes(`"delete":"/flynn/cell/workloads/${next.appId}-${next.id}-web"`);
    if (isRemoval && !isHeard) isEarly = true;
    return transact(transaction, options);
  };
  const begun = await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  const get = () => world.client.call(deployments.get, { params: { deployment: begun.id } });
  await waitFor(async () => ['rolling_back', 'failed'].includes((await get()).state), {
    what: 'the failure',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  await world.jobsOf('shop', 4, ({ releaseId, state }) => releaseId === old.id && state === 'pending');
  assert.equal((await get()).state, 'rolling_back');
  isHeard = true;
  heard.resolve();
  await waitFor(async () => (await get()).state === 'failed', { what: 'the end', deadlineMs: 60_000, intervalMs: 5 });
  assert.ok(!isEarly, 'new jobs went before old ones were up');
  await world.jobsOf('shop', 5, ({ releaseId, state }) => releaseId === old.id && state === 'running');
});

test('a job of before that says of its crash only after the retry has begun is not one of that', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const release = await world.makeRelease('shop', { web: {} });
  const params = { app: 'shop' };
  const processes = { web: 2 };
  await world.client.call(formations.put, { params: { ...params, release: release.id }, body: { processes } });
  world.setBehaviour(() => ({ is: 'fail', error: 'no' }));
  // One host says at once that its job failed, the other one takes its time.
  const heard = Promise.withResolvers<void>();
  const untold = new Set<string>();
  let first: string | undefined;
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    const [, host, job] =
      /"put":"\/flynn\/cell\/status\/([^/]+)\/([^"]+)"/.exec(JSON.stringify(transaction.then)) ?? [];
    first ??= host;
    if (job !== undefined && host !== first) {
      untold.add(job);
      await heard.promise;
    }
    return transact(transaction, options);
  };
  const begin = () => world.client.call(deployments.create, { params, body: { releaseId: release.id } });
  const { id } = await begin();
  const hasFailed = async () =>
    (await world.client.call(deployments.get, { params: { deployment: id } })).state === 'failed';
  await waitFor(hasFailed, { what: 'the failure', deadlineMs: 60_000, intervalMs: 5 });
  await waitFor(() => untold.size > 0, { what: 'a job that nothing is told of', deadlineMs: 60_000, intervalMs: 5 });
  const ofBefore = [...untold];
  const again = await begin();
  const { spec } = await world.deps.resources.get(deploymentType, again.id, { signal: AbortSignal.timeout(60_000) });
  heard.resolve();
  assert.deepEqual(
    ofBefore.filter((job) => !spec.knownJobs.includes(job)),
    [],
  );
});

test('a retry waits for jobs of before to be told to stop: one that crashes would be taken over, and waited for until the end', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const release = await world.makeRelease('shop', { web: {} });
  const params = { app: 'shop' };
  world.setBehaviour(() => ({ is: 'crash', code: 1 }));
  // Schedulers are slow to take away what the first one leaves.
  const retried = Promise.withResolvers<void>();
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    const text = JSON.stringify(transaction.then);
    const isStop = text.includes('"put":"/flynn/cell/assignments/') && text.includes('stop');
    if (isStop) await retried.promise;
    return transact(transaction, options);
  };
  const begin = () => world.client.call(deployments.create, { params, body: { releaseId: release.id } });
  const stateOf = async (id: string) =>
    (await world.client.call(deployments.get, { params: { deployment: id } })).state;
  const { id } = await begin();
  const deadline = { deadlineMs: 60_000, intervalMs: 5 };
  await waitFor(async () => (await stateOf(id)) === 'failed', { what: 'the failure', ...deadline });
  const [before] = await world.jobsOf('shop', 1, ({ type }) => type === 'web');
  world.setBehaviour(() => ({ is: 'run' }));
  const again = await begin();
  const taken = await store.get(`/flynn/cell/workloads/${release.appId}-${release.id}-web`);
  retried.resolve();
  assert.equal(taken, undefined, 'it would keep the job of before');
  await waitFor(async () => (await stateOf(again.id)) === 'complete', { what: 'the retry', ...deadline });
  const [job] = await world.jobsOf('shop', 1);
  assert.notEqual(job?.id, before?.id);
});

test('what the old release is scaled to while its last jobs end is kept for when it is gone back to', async () => {
  await using world = await startTestController({ behave: () => ({ is: 'run', lingers: true }) });
  const { release: old } = await world.deployApp('shop', { web: {} });
  const [job] = await world.jobsOf('shop', 1);
  const next = await world.makeRelease('shop', { web: {} });
  const params = { app: 'shop', release: old.id };
  const ended = world.deploy('shop', next.id);
  await world.jobsOf('shop', 1, ({ state }) => state === 'stopping');
  await world.client.call(formations.put, { params, body: { processes: { web: 3 } } });
  await world.hosts.find(({ id }) => id === job?.hostId)?.end(job?.id ?? '', 0);
  assert.equal((await ended).state, 'complete');
  assert.deepEqual((await world.client.call(formations.get, { params })).processes, { web: 3 });
});

test('a deployment whose last step was taken by a clock that was ahead fails in its time nonetheless', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  await world.client.call(apps.update, { params, body: { deployTimeoutMs: 1_000 } });
  const next = await world.makeRelease('shop', { web: {} });
  world.setBehaviour(() => ({ is: 'hang' }));
  const { id } = await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  const steppedAt = new Date(Date.now() + 365 * 86_400_000).toISOString();
  await world.deps.resources.updateStatus(deploymentType, id, ({ status }) => ({ ...status, steppedAt }));
  const get = () => world.client.call(deployments.get, { params: { deployment: id } });
  await waitFor(async () => (await get()).state === 'failed', { what: 'the end', deadlineMs: 60_000, intervalMs: 5 });
});

test('a release takes over nothing of the live one while another is about to take its place', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  const make = (env: Record<string, string> | undefined) =>
    world.client.call(releases.create, { params, body: env === undefined ? {} : { env } });
  const { id: releaseId } = await make({ A: '1' });
  world.setBehaviour((job) => (job.template.meta['flynn.release'] === releaseId ? { is: 'hang' } : { is: 'run' }));
  const { id } = await world.client.call(deployments.create, { params, body: { releaseId } });
  await assert.rejects(
    make(undefined),
    (error) =>
      hasCode(error, 'conflict') && error.detail['deploymentId'] === id && /being deployed/.test(error.message),
  );
  await world.client.call(releases.create, { params, body: { env: {}, processes: { web: {} } } });
  await world.jobsOf('shop', 1, (one) => one.releaseId === releaseId && one.state === 'starting');
});
