/** Datastores of the platform's own, as resources of its providers: made, led to, moved to another image, and gone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appliances } from '@flynn/appliances/appliances';
import { keyspacePrefix } from '@flynn/host-agent/keyspaces/keyspace';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, jobs, releases } from '../api.ts';
import { cellKeys } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { valuesOf } from '../mirrors/cell-view.ts';
import { providers, resources } from '../providers/api.ts';
import type { ResourceView } from '../providers/model.ts';
import { resourceType } from '../providers/types.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import type { TestController, TestControllerOptions } from '../testing.ts';
import { volumes } from '../volumes/api.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import { wantedOf } from './datastore.ts';
import { keepCurrent } from './provision.ts';

const images = { postgres: 'flynn/postgres:1' };
const web = { web: { ports: [{ port: 8080 }] } };

async function startWorld(options: TestControllerOptions = {}): Promise<TestController> {
  const world = await startTestController({ applianceImages: images, ...options });
  await waitFor(async () => (await world.client.call(providers.list, {})).some(({ name }) => name === 'postgres'), {
    what: 'the provider postgres',
    deadlineMs: 30_000,
    intervalMs: 10,
  });
  return world;
}

/** Once the app has it, too: until then it is given nothing else. */
async function add(world: TestController, app: string, config: Record<string, string> = {}): Promise<ResourceView> {
  const made = await world.client.call(resources.create, {
    params: { provider: 'postgres' },
    body: { apps: [app], config, isReplacing: false },
  });
  await settledRelease(world, app);
  return made;
}

async function settledRelease(world: TestController, app: string) {
  const { releaseId = '' } = await waitFor(
    async () => {
      const { status } = await world.deps.resources.lookup(appType, app);
      return status.deploymentId === undefined ? status : undefined;
    },
    { what: `the deployments of ${app}`, deadlineMs: 60_000, intervalMs: 10 },
  );
  return world.client.call(releases.get, { params: { app, release: releaseId } });
}

test('a database is an app of its own, on as many hosts as it has members, and the app that has it is led there', async () => {
  await using world = await startWorld();
  await world.deployApp('shop', web);
  const made = await add(world, 'shop', { memory: '256MB' });
  assert.equal(made.state, 'ready');

  const database = await world.client.call(apps.get, { params: { app: 'shop-postgres' } });
  assert.equal(made.externalId, database.id);
  assert.deepEqual(database.datastore, { appliance: 'postgres', resourceId: made.id });
  const members = await world.client.call(jobs.list, { params: { app: 'shop-postgres' } });
  assert.deepEqual(members.map(({ hostId = '', state }) => `${hostId} ${state}`).toSorted(), [
    'host1 running',
    'host2 running',
  ]);
  const own = await settledRelease(world, 'shop-postgres');
  assert.equal(own.processes['postgres']?.memoryBytes, 256 * 1024 ** 2);

  const { env, links } = await settledRelease(world, 'shop');
  const password = own.env['POSTGRES_PASSWORD'] ?? '';
  assert.match(password, /^[0-9a-f]{48}$/);
  assert.equal(env['DATABASE_URL'], `postgres://app:${password}@shop-postgres-primary.flynn:5432/app`);
  assert.deepEqual(links, ['shop-postgres-primary', 'shop-postgres-replica']);
  assert.deepEqual(await linksOfJobs(world, 'shop'), links);

  // What comes after it has it, too.
  const next = await world.makeRelease('shop', web);
  assert.deepEqual(next.links, links);
});

test('a Redis is one beside its PostgreSQL, with what it was asked to be; what it does when it is full is changed to what there is', async () => {
  await using world = await startWorld({ applianceImages: { ...images, redis: 'flynn/redis:1' } });
  await world.deployApp('shop', web);
  await add(world, 'shop', { members: '1' });
  const isThere = async () => (await world.client.call(providers.list, {})).some(({ name }) => name === 'redis');
  await waitFor(isThere, { what: 'the provider redis', deadlineMs: 30_000, intervalMs: 10 });
  const body = { apps: ['shop'], config: { eviction: 'allkeys-lru' }, isReplacing: false };
  await world.client.call(resources.create, { params: { provider: 'redis' }, body });
  const own = await settledRelease(world, 'shop-redis');
  assert.equal(own.env['MAXMEMORY_POLICY'], 'allkeys-lru');
  assert.equal(own.processes['redis']?.memoryBytes, 256 * 1024 ** 2);
  const { env, links } = await settledRelease(world, 'shop');
  assert.equal(env['REDIS_URL'], `redis://app:${own.env['REDIS_PASSWORD']}@shop-redis-primary.flynn:6379`);
  assert.deepEqual(links, [
    'shop-postgres-primary',
    'shop-postgres-replica',
    'shop-redis-primary',
    'shop-redis-replica',
  ]);

  const change = (more: Record<string, string>) =>
    world.client.call(releases.create, { params: { app: 'shop-redis' }, body: { env: { ...own.env, ...more } } });
  const refusals: [Record<string, string>, RegExp][] = [
    [{ MAXMEMORY_POLICY: 'never' }, /MAXMEMORY_POLICY=never: members of shop-redis know noeviction, allkeys-lru/],
    [{ REDIS_HOST: 'x' }, /REDIS_HOST is not set or unset by hand/],
  ];
  for (const [more, says] of refusals) {
    await assert.rejects(change(more), (error) => error instanceof FlynnError && says.test(error.message));
  }
  assert.equal((await change({ MAXMEMORY_POLICY: 'noeviction' })).env['MAXMEMORY_POLICY'], 'noeviction');
});

test('a MySQL beside a PostgreSQL has DATABASE_URL only if it is asked to; what that is else called leads to both', async () => {
  await using world = await startWorld({ applianceImages: { ...images, mysql: 'flynn/mysql:1' } });
  await world.deployApp('shop', web);
  await add(world, 'shop', { members: '1' });
  const isThere = async () => (await world.client.call(providers.list, {})).some(({ name }) => name === 'mysql');
  await waitFor(isThere, { what: 'the provider mysql', deadlineMs: 30_000, intervalMs: 10 });
  const ask = (isReplacing: boolean) =>
    world.client.call(resources.create, {
      params: { provider: 'mysql' },
      body: { apps: ['shop'], config: {}, isReplacing },
    });
  await assert.rejects(
    ask(false),
    (error) => hasCode(error, 'invalid') && /shop has DATABASE_URL already: unset them/.test(error.message),
  );
  await ask(true);
  const own = await settledRelease(world, 'shop-mysql');
  assert.equal(own.processes['mysql']?.memoryBytes, 512 * 1024 ** 2);
  const { env, links } = await settledRelease(world, 'shop');
  assert.equal(env['MYSQL_URL'], `mysql://app:${own.env['MYSQL_PASSWORD']}@shop-mysql-primary.flynn:3306/app`);
  assert.deepEqual([env['DATABASE_URL'], env['PGHOST']], [env['MYSQL_URL'], 'shop-postgres-primary.flynn']);
  assert.deepEqual(links, [
    'shop-postgres-primary',
    'shop-postgres-replica',
    'shop-mysql-primary',
    'shop-mysql-replica',
  ]);
  const body = { env: { ...own.env, MYSQL_HOST: 'x' } };
  await assert.rejects(
    world.client.call(releases.create, { params: { app: 'shop-mysql' }, body }),
    (error) => error instanceof FlynnError && /MYSQL_HOST is not set or unset by hand/.test(error.message),
  );
});

test('what is taken from an app leads nowhere any more, and goes with all that is in it once nobody has it', async () => {
  await using world = await startWorld();
  await world.deployApp('shop', web);
  await world.deployApp('blog', web);
  const { id, externalId = '' } = await add(world, 'shop', { members: '1' });
  await world.client.call(resources.addApp, { params: { resource: id, app: 'blog' }, body: { isReplacing: false } });
  assert.notEqual((await settledRelease(world, 'blog')).env['DATABASE_URL'], undefined);
  const keys = async () => (await world.store.list(keyspacePrefix(externalId))).entries.map(({ key }) => key);
  await world.store.transact({ then: [{ put: `${keyspacePrefix(externalId)}leader`, value: 'm1' }] });

  await world.client.call(resources.removeApp, { params: { resource: id, app: 'blog' } });
  const { env, links } = await settledRelease(world, 'blog');
  assert.deepEqual([env['DATABASE_URL'], links], [undefined, undefined]);
  assert.deepEqual(await linksOfJobs(world, 'blog'), []);
  assert.equal((await keys()).length, 1);

  const gone = await world.client.call(resources.remove, { params: { resource: id } });
  assert.equal(gone.isGone, true);
  await assert.rejects(world.client.call(apps.get, { params: { app: 'shop-postgres' } }), (error) =>
    hasCode(error, 'not_found'),
  );
  assert.deepEqual(await keys(), []);
  assert.deepEqual(await volumeNames(world), []);
  assert.equal((await settledRelease(world, 'shop')).links, undefined);
});

test('an app that goes takes its own database along; the next one of that name is another', async () => {
  await using world = await startWorld();
  await world.deployApp('shop', web);
  const first = await add(world, 'shop', { members: '1' });
  await world.deployApp('blog', web);
  const second = await add(world, 'blog', { members: '1' });
  const renamed = await world.client.call(resources.create, {
    params: { provider: 'postgres' },
    body: { apps: ['shop'], config: { members: '1' }, isReplacing: true },
  });
  const names = await Promise.all(
    [first, second, renamed].map(
      async ({ externalId = '' }) => (await world.client.call(apps.get, { params: { app: externalId } })).name,
    ),
  );
  assert.deepEqual(names, ['shop-postgres', 'blog-postgres', 'shop-postgres-2']);

  await world.client.call(apps.remove, { params: { app: 'shop' }, query: {} });
  await waitFor(async () => (await world.deps.resources.list(resourceType, {})).length === 1, {
    what: 'the databases of shop to go',
    deadlineMs: 60_000,
    intervalMs: 10,
  });
  const left = (await world.deps.resources.list(appType, {})).map(({ spec }) => spec.name).toSorted();
  assert.deepEqual(left, ['blog', 'blog-postgres']);
});

test('an app that has such variables already gets none unless it asks for that, and nothing is made in vain', async () => {
  await using world = await startWorld();
  const { app } = await world.deployApp('shop', web);
  await world.client.call(releases.create, { params: { app: app.id }, body: { env: { PGHOST: 'db' }, meta: {} } });
  const own = (await world.client.call(releases.list, { params: { app: app.id }, query: {} }))[0];
  await world.deploy('shop', own?.id ?? '');
  await assert.rejects(
    add(world, 'shop', { members: '1' }),
    (error) => hasCode(error, 'invalid') && /shop has PGHOST already: unset them/.test(error.message),
  );
  await waitFor(async () => (await world.deps.resources.list(resourceType, {})).length === 0, {
    what: 'the resource to go',
    deadlineMs: 60_000,
    intervalMs: 10,
  });
  assert.deepEqual(
    (await world.deps.resources.list(appType, {})).map(({ spec }) => spec.name),
    ['shop'],
  );
});

test('a database that does not start is told of with its last words, and nothing of it is left', async () => {
  await using world = await startWorld({
    behave: ({ template }) =>
      template.meta['flynn.type'] === 'postgres' ? { is: 'crash', code: 1, lines: ['no space'] } : { is: 'run' },
  });
  await world.deployApp('shop', web);
  await assert.rejects(
    add(world, 'shop'),
    (error) => hasCode(error, 'unavailable') && /shop-postgres did not start/.test(error.message),
  );
  await waitFor(async () => (await world.deps.resources.list(appType, {})).length === 1, {
    what: 'what was begun to go',
    deadlineMs: 60_000,
    intervalMs: 10,
  });
  assert.equal((await settledRelease(world, 'shop')).env['DATABASE_URL'], undefined);
});

test('nobody is led to a database before it can be written to', async () => {
  const asked: string[] = [];
  let isServed = false;
  await using world = await startWorld({
    isServed: async (service) => {
      asked.push(service);
      return isServed;
    },
  });
  await world.deployApp('shop', web);
  const made = add(world, 'shop', { members: '1' });
  await waitFor(async () => asked.length > 1, { what: 'somebody to ask', deadlineMs: 60_000, intervalMs: 10 });
  assert.equal((await settledRelease(world, 'shop')).env['DATABASE_URL'], undefined);
  const [pending] = await world.client.call(resources.list, {});
  assert.deepEqual([pending?.state, pending?.waitingFor], ['pending', 'shop-postgres-primary to be announced']);
  isServed = true;
  assert.equal((await made).state, 'ready');
  assert.deepEqual(new Set(asked), new Set(['shop-postgres-primary']));
});

test('with another version its members go over to that one’s image, with their data and their passwords', async () => {
  await using world = await startWorld();
  await world.deployApp('shop', web);
  const { env } = (await add(world, 'shop', { members: '1' }), await settledRelease(world, 'shop'));
  const before = await settledRelease(world, 'shop-postgres');
  const kept = await volumeNames(world);
  Object.assign(world.deps.settings, { applianceImages: { postgres: 'flynn/postgres:2' } });
  await world.restartWorker();
  await waitFor(async () => (await settledRelease(world, 'shop-postgres')).id !== before.id, {
    what: 'the other image to be live',
    deadlineMs: 60_000,
    intervalMs: 10,
  });
  const after = await settledRelease(world, 'shop-postgres');
  const { image } = await world.client.call(releases.getArtifact, { params: { artifact: after.artifactId ?? '' } });
  assert.deepEqual(image, { name: 'flynn/postgres:2' });
  assert.deepEqual([after.env, after.processes], [before.env, before.processes]);
  assert.deepEqual((await settledRelease(world, 'shop')).env, env);
  assert.deepEqual(await volumeNames(world), kept);
});

test('what is put back is not cut by another image: that comes after it', async () => {
  await using world = await startWorld();
  await world.deployApp('shop', web);
  await add(world, 'shop', { members: '1' });
  const { id: appId } = await world.client.call(apps.get, { params: { app: 'shop-postgres' } });
  const { id } = await settledRelease(world, 'shop-postgres');
  const owner = { type: appType.name, id: appId };
  const spec = { datastore: 'shop-postgres', keep: 7, secret: 's' };
  const restore = { state: 'running', by: 'ann', wantedMs: 0, attempt: 1, nextMs: 0 } as const;
  const { resources: store } = world.deps;
  await store.create(backupPlanType, { id: appId, owner, spec, status: { handledMs: 0, restore } });
  const deps = {
    ...world.deps,
    settings: { ...world.deps.settings, applianceImages: { postgres: 'flynn/postgres:2' } },
  };
  const postgres = appliances.get('postgres');
  assert.ok(postgres !== undefined);
  const { signal } = new AbortController();
  assert.equal(await keepCurrent(deps, postgres, appId, signal), true);
  assert.equal((await settledRelease(world, 'shop-postgres')).id, id);
  await store.updateStatus(backupPlanType, appId, () => ({ handledMs: 0 }));
  assert.equal(await keepCurrent(deps, postgres, appId, signal), true);
  assert.notEqual((await store.get(appType, appId)).status.deploymentId, undefined);
});

test('an image that its members do not start with is tried once: it goes on with the one it has', async () => {
  await using world = await startWorld({
    behave: ({ template: { image } }) =>
      'name' in image && image.name === 'flynn/postgres:broken' ? { is: 'crash', code: 1 } : { is: 'run' },
  });
  await world.deployApp('shop', web);
  await add(world, 'shop', { members: '1' });
  const { id } = await settledRelease(world, 'shop-postgres');
  Object.assign(world.deps.settings, { applianceImages: { postgres: 'flynn/postgres:broken' } });
  const ended = async (count: number) => {
    const all = await world.client.call(deployments.list, { params: { app: 'shop-postgres' }, query: {} });
    return all.length === count && all.every(({ endedAt }) => endedAt !== undefined) ? all : undefined;
  };
  await world.restartWorker();
  const [last] = await waitFor(() => ended(2), { what: 'the deployment to fail', deadlineMs: 60_000, intervalMs: 10 });
  assert.equal(last?.state, 'failed');
  await world.jobsOf('shop-postgres', 1);
  await world.restartWorker();
  // Whatever is done for a resource when a worker begins has been done for it once another one is through.
  await world.deployApp('blog', web);
  Object.assign(world.deps.settings, { applianceImages: images });
  await add(world, 'blog', { members: '1' });
  assert.ok(await ended(2));
  assert.equal((await settledRelease(world, 'shop-postgres')).id, id);
});

const postgres = appliances.get('postgres') ?? assert.fail('there is no postgres');
const redis = appliances.get('redis') ?? assert.fail('there is no redis');

test('two members where there are two hosts; what cannot be is refused with what can', () => {
  assert.deepEqual(
    [0, 1, 2, 7].map((hosts) => wantedOf(postgres, {}, hosts).members),
    [1, 1, 2, 2],
  );
  assert.deepEqual(wantedOf(postgres, { members: '3', memory: '1GB' }, 3), {
    members: 3,
    memoryBytes: 1024 ** 3,
    env: {},
  });
  assert.deepEqual(wantedOf(redis, { eviction: 'allkeys-lru' }, 1).env, { MAXMEMORY_POLICY: 'allkeys-lru' });
  const refusals: [config: Record<string, string>, hosts: number, says: RegExp][] = [
    [{ members: '3' }, 2, /members=3: each is on another host, and 2 take jobs/],
    [{ members: '2' }, 1, /there is one: add hosts first/],
    [{ members: 'many' }, 3, /--config members=2/],
    [{ memory: '5' }, 1, /512MB or 2GB/],
    [{ memory: '64MB' }, 1, /192MB at least/],
    [{ plan: 'small' }, 1, /plan/],
    [{ eviction: 'allkeys-lru' }, 1, /eviction/],
  ];
  const isRefusal = (says: RegExp) => (error: unknown) => hasCode(error, 'invalid') && says.test(error.message);
  for (const [config, hosts, says] of refusals) {
    assert.throws(() => wantedOf(postgres, config, hosts), isRefusal(says));
  }
  assert.throws(() => wantedOf(redis, { eviction: 'never' }, 1), isRefusal(/--config eviction=noeviction \(eviction/));
  assert.throws(() => wantedOf(redis, { memory: '64MB' }, 1), isRefusal(/redis takes 96MB at least/));
});

/** What all jobs of an app that run may reach. */
async function linksOfJobs({ deps, client }: TestController, app: string): Promise<string[]> {
  const running = await client.call(jobs.list, { params: { app } });
  const { entries } = await deps.store.list(cellKeys.templates);
  const templates = new Map(entries.map(({ key, value }) => [key, jobTemplateSchema.parse(JSON.parse(value))]));
  const workloads = new Map(valuesOf(deps.cell.workloads).map((workload) => [workload.id, workload.version]));
  const links = running.flatMap(({ workloadId }) => {
    const version = workloads.get(workloadId) ?? assert.fail(`there is no workload ${workloadId}`);
    return templates.get(cellKeys.template(workloadId, version))?.links ?? [];
  });
  return [...new Set(links)];
}

async function volumeNames({ client }: TestController): Promise<string[]> {
  return (await client.call(volumes.list, { query: {} })).volumes.map(({ id }) => id);
}
