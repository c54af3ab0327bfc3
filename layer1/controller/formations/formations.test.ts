import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, hasCode } from '@flynn/kit/errors';
import { resourceKey } from '@flynn/resource/keys';
import { deployments, formations } from '../api.ts';
import { generic } from '../generic/api.ts';
import { formationType } from '../resources.ts';
import { startTestController } from '../testing.ts';

const signal = new AbortController().signal;

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
});

const atMostOne = isCode('invalid', /db=\d: db keeps data in a volume \(data\).*there is at most one of it/);

test('of a type with a volume there are no two, whoever asks for them', async () => {
  await using world = await startTestController();
  const { client } = world;
  const params = { app: 'shop', release: 'v1' };
  await world.deployApp('shop', { db: { volumes } });
  const scale = (counts: Record<string, number>, release = 'v1') =>
    client.call(formations.put, { params: { ...params, release }, body: { processes: counts } });
  assert.equal((await scale({ db: 1 })).processes['db'], 1);
  await assert.rejects(scale({ db: 2 }), atMostOne);
  await world.makeRelease('shop', { db: { volumes } });
  await assert.rejects(scale({ db: 2 }, 'v2'), atMostOne);
  const apply = (kind: string, body: { name: string; spec: Record<string, unknown> }, dryRun: boolean) =>
    client.call(generic.apply, { params: { group: 'flynn', version: 'v1', kind }, body, query: { dryRun } });
  const data = { db: { count: 2, volumes } };
  for (const isDryRun of [true, false]) {
    const counts = { db: 2 };
    await assert.rejects(apply('Formation', { name: 'shop', spec: { processes: counts } }, isDryRun), atMostOne);
    await assert.rejects(
      apply('App', { name: 'shop', spec: { processes: { db: { count: 2 } } } }, isDryRun),
      atMostOne,
    );
    await assert.rejects(apply('App', { name: 'new', spec: { processes: data } }, isDryRun), atMostOne);
  }
  const { db, ...others } = (await client.call(formations.get, { params })).processes;
  assert.deepEqual([db, others], [1, {}]);
});

const apart = [{ attribute: 'host', operator: 'distinct' as const }];

test('a type with a volume runs several times where no two are on one host, and is kept from losing that', async () => {
  await using world = await startTestController({ hosts: 3 });
  const { client } = world;
  const params = { app: 'shop' };
  await world.deployApp('shop', { db: { volumes } });
  const scale = (release: string, db: number) =>
    client.call(formations.put, { params: { ...params, release }, body: { processes: { db } } });
  await assert.rejects(scale('v1', 3), isCode('invalid', /flynn -a shop constraint set db distinct:host/));
  const kept = await world.makeRelease('shop', { db: { volumes, constraints: apart } });
  assert.equal((await world.deploy('shop', kept.id)).state, 'complete');
  await scale('v2', 3);
  const hosts = (await world.jobsOf('shop', 3)).map(({ hostId }) => hostId);
  assert.equal(new Set(hosts).size, 3);

  const flynnApp = { group: 'flynn', version: 'v1', kind: 'App' };
  const spec = { processes: { db: { constraints: [] } } };
  const loose = [[], [{ attribute: 'zone', operator: 'distinct' as const }]];
  for (const constraints of loose) {
    const next = await world.makeRelease('shop', { db: { volumes, constraints } });
    const deploy = client.call(deployments.create, { params, body: { releaseId: next.id } });
    await assert.rejects(deploy, isCode('invalid', /would run db=3: .*distinct:host.*\n {2}flynn -a shop scale db=1/));
  }
  for (const dryRun of [true, false]) {
    const apply = client.call(generic.apply, { params: flynnApp, body: { name: 'shop', spec }, query: { dryRun } });
    await assert.rejects(apply, atMostOne);
  }
  await assert.rejects(
    client.call(deployments.create, { params, body: { releaseId: 'v1' } }),
    isCode('invalid', /v1 of shop would run db=3/),
  );
  const file = { name: 'new', spec: { image: 'x', processes: { db: { count: 2, volumes, constraints: apart } } } };
  await client.call(generic.apply, { params: flynnApp, body: file, query: { dryRun: true } });
  await scale('v2', 1);
  await world.jobsOf('shop', 1);
  const last = await world.makeRelease('shop', { db: { volumes } });
  assert.equal((await world.deploy('shop', last.id)).state, 'complete', 'one shares nothing');
});

test('what runs several times gets no volume by its next release before it is scaled to one', async () => {
  await using world = await startTestController();
  const { client } = world;
  const params = { app: 'shop' };
  await world.deployApp('shop', { db: {} });
  await client.call(formations.put, { params: { ...params, release: 'v1' }, body: { processes: { db: 3 } } });
  const next = await world.makeRelease('shop', { db: { volumes } });
  const deploy = () => client.call(deployments.create, { params, body: { releaseId: next.id } });
  await assert.rejects(
    deploy(),
    isCode('invalid', /v2 of shop would run db=3: .*\n {2}flynn -a shop scale db=1, then/),
  );
  const flynnApp = { group: 'flynn', version: 'v1', kind: 'App' };
  const body = { name: 'shop', spec: { processes: { db: { volumes } } } };
  for (const dryRun of [true, false]) {
    await assert.rejects(client.call(generic.apply, { params: flynnApp, body, query: { dryRun } }), atMostOne);
  }
  await client.call(formations.put, { params: { ...params, release: 'v1' }, body: { processes: { db: 1 } } });
  assert.equal((await world.deploy('shop', next.id)).state, 'complete');
});

test('what was scaled with a volume by a version before runs on, is deployed and scaled down, and never up', async () => {
  await using world = await startTestController();
  const { client, deps } = world;
  const { app, release } = await world.deployApp('shop', { db: {} });
  await client.call(formations.put, {
    params: { app: app.id, release: release.id },
    body: { processes: { db: 3 } },
  });
  await world.jobsOf('shop', 3);
  // As it would have been then: the release has its volume in the store.
  const key = resourceKey('release', release.id);
  const entry = await world.store.get(key);
  const record = JSON.parse(entry?.value ?? '');
  record.spec.processes.db.volumes = volumes;
  await world.store.transact({ then: [{ put: key, value: JSON.stringify(record) }] });

  const next = await world.makeRelease('shop', { db: { volumes } });
  assert.equal((await world.deploy('shop', next.id)).state, 'complete');
  const scale = (db: number) =>
    client.call(formations.put, { params: { app: app.id, release: next.id }, body: { processes: { db } } });
  const counts = async () => (await deps.resources.get(formationType, next.id, { signal })).spec.processes;
  assert.deepEqual(await counts(), { db: 3 });
  await assert.rejects(scale(4), atMostOne);
  await scale(3);
  await scale(2);
  await assert.rejects(scale(3), atMostOne);
  assert.deepEqual(await counts(), { db: 2 });
});
