/** What apps take and do, from hosts and routers to the API. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { handle, startServer } from '@flynn/kit/http-server';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { apps, formations } from '../api.ts';
import { appType } from '../resources.ts';
import { startGateWorld } from '../access/gate-fixture.ts';
import { latencyBoundsMs } from '../routes/latency.ts';
import { routerAppStats } from '../routes/app-stats.ts';
import type { AppStats } from '../routes/app-stats.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { figures } from './api.ts';
import { stepMs } from './ring.ts';
import { hostsOf, typeRows } from './sample.ts';
import { figuresOf, latestOf } from './views.ts';
import { FiguresWatch } from './watch.ts';

const mebibyte = 1024 ** 2;
const start = Date.parse('2030-01-01T12:00:00Z');
const { signal } = new AbortController();
const bucket = latencyBoundsMs.indexOf(10);

type World = {
  controller: TestController;
  watch: FiguresWatch;
  appId: string;
  /** What each job took so far, in seconds of a processor. */
  seconds: number;
  router: { isAway: boolean; requests: number; errors: number };
  nowMs: number;
  /** So many steps pass, and it is looked. */
  pass(steps?: number): Promise<void>;
};

async function startWorld(t: TestContext, options: { roomBytes?: number } = {}): Promise<World> {
  const router = { isAway: false, requests: 0, errors: 0 };
  const appIds: string[] = [];
  const stats = handle(routerAppStats, async () => {
    if (router.isAway) throw new Error('it is away');
    const apps = appIds.map((appId): AppStats => {
      const latency = Array.from({ length: latencyBoundsMs.length + 1 }, () => 0).with(bucket, router.requests);
      const { requests, errors: serverErrors } = router;
      return { appId, routes: 1, sinceMs: 0, requests, active: 1, clientErrors: 0, serverErrors, latency };
    });
    return { instance: 'one', atMs: world.nowMs, apps };
  });
  const key = 'test-cluster-key';
  const place = { key, host: '127.0.0.1', log: silentLogger(), port: 0 };
  const server = await startServer({ name: 'router', handlers: [stats], ...place });
  t.after(() => server.close());
  const routers = () => [`127.0.0.1:${server.port}`];
  const controller = await startTestController({ routers });
  t.after(() => controller[Symbol.asyncDispose]());
  const { app } = await controller.deployApp('shop', { web: { ports: [{ port: 8080 }], memoryBytes: 64 * mebibyte } });
  appIds.push(app.id);
  await controller.jobsOf('shop', 1);
  const world: World = {
    controller,
    watch: undefined as never,
    appId: app.id,
    seconds: 100,
    router,
    nowMs: start,
    async pass(steps = 1) {
      world.nowMs += steps * stepMs;
      await world.watch.look(signal);
    },
  };
  world.watch = new FiguresWatch(
    { ...controller.deps, now: () => world.nowMs },
    { ...options, elapsedMs: () => world.nowMs },
  );
  for (const host of controller.hosts) {
    host.cpuSecondsOf = () => world.seconds;
    host.memoryBytesOf = () => 10 * mebibyte;
  }
  return world;
}

const viewOf = ({ watch, appId, nowMs }: World, since?: string) => figuresOf(watch.history, appId, { since, nowMs });

test('processors, memory and requests are told from look to look, and what was not looked at is a gap', async (t) => {
  const world = await startWorld(t);
  const { router } = world;
  assert.deepEqual(viewOf(world), { from: '2030-01-01T12:00:15.000Z', stepMs, points: 0, isLeftOut: false, types: [] });
  await world.pass();
  const [first] = viewOf(world).types;
  const limit = 64 * mebibyte;
  assert.deepEqual(first, {
    type: 'web',
    jobs: [1],
    cpu: [null],
    memoryBytes: [10 * mebibyte],
    memoryLimitBytes: [limit],
  });
  world.seconds += 6;
  router.requests += 300;
  router.errors += 30;
  await world.pass();
  await world.pass(2);
  const { types, requests, ...span } = viewOf(world);
  const from = '2030-01-01T12:00:15.000Z';
  assert.deepEqual(span, { from, stepMs, points: 4, knownSince: from, isLeftOut: false });
  const [web] = types;
  assert.deepEqual(
    [web?.jobs, web?.cpu],
    [
      [1, 1, null, 1],
      [null, 0.4, null, 0],
    ],
  );
  assert.deepEqual(requests?.perSecond, [null, 20, null, 0]);
  assert.deepEqual(requests?.serverErrorsPerSecond, [null, 2, null, 0]);
  assert.deepEqual(requests?.p95Ms, [null, 9.8, null, null]);
  const later = viewOf(world, '2030-01-01T12:00:30.000Z');
  assert.deepEqual([later.from, later.requests?.perSecond], ['2030-01-01T12:00:45.000Z', [null, 0]]);
  assert.equal(viewOf(world, '2031-01-01T00:00:00+01:00').points, 0);
  assert.equal(viewOf(world, '2029-01-01T00:00:00Z').points, 4);
  const latest = latestOf(world.watch.history, world.appId);
  assert.deepEqual([latest.types[0]?.cpu, latest.requests?.perSecond, latest.requests?.p50Ms], [0, 0, null]);
});

test('a host and a router that do not answer leave a gap in what is theirs, and no other', async (t) => {
  const world = await startWorld(t);
  await world.pass();
  world.router.requests += 10;
  await world.pass();
  world.router.isAway = true;
  const away = { ...world.controller.deps.hosts, usage: async () => Promise.reject(new Error('it hangs')) };
  const { watch } = world;
  world.watch = new FiguresWatch({ ...world.controller.deps, hosts: away, now: () => world.nowMs });
  await world.pass();
  const [web] = viewOf(world).types;
  assert.deepEqual([web?.jobs, web?.cpu, web?.memoryBytes], [[1], [null], [null]]);
  world.watch = watch;
  await world.pass();
  assert.deepEqual(
    viewOf(world).requests?.perSecond,
    [null, 10 / 15, null, null].map((one) => one && 0.67),
  );
  assert.deepEqual(viewOf(world).types[0]?.memoryBytes.at(-1), 10 * mebibyte);
});

test('where more hosts hang than can be waited for, those that answered are told, and the requests', async (t) => {
  const world = await startWorld(t);
  const { deps } = world.controller;
  const usage = async (_hostId: string, limit: AbortSignal): Promise<never> => {
    await once(limit, 'abort');
    throw limit.reason;
  };
  // In which the router has answered, on a slow machine too.
  const options = { lookMs: 1_000, elapsedMs: () => world.nowMs };
  world.watch = new FiguresWatch({ ...deps, hosts: { ...deps.hosts, usage }, now: () => world.nowMs }, options);
  await world.pass();
  world.router.requests += 30;
  await world.pass();
  const { types, requests } = viewOf(world);
  assert.deepEqual(
    [types[0]?.jobs, types[0]?.cpu],
    [
      [1, 1],
      [null, null],
    ],
  );
  assert.deepEqual(requests?.perSecond, [null, 2]);
  await assert.rejects(world.watch.look(AbortSignal.abort()));
});

test('of jobs on a host that is away it is not known what they take, and they are not told as none', () => {
  const job = (id: string, isUncertain: boolean) => {
    const own = { id, workloadId: 'a-r1-web', hostId: id.split('-')[0] ?? '', meta: { 'flynn.type': 'web' } };
    return { ...own, isUncertain };
  };
  const jobs = [job('h1-x', false), job('h2-x', true)];
  assert.deepEqual([...hostsOf(jobs)], ['h1']);
  const cores = new Map([['h1-x', 1]]);
  const rows = typeRows(jobs, { cores, memoryBytes: new Map([['h1-x', 5]]), memoryLimitOf: () => 10 });
  const [row] = [...rows.values()].map((types) => types.get('web'));
  assert.deepEqual(row, { jobs: 2, cpu: Number.NaN, memoryBytes: Number.NaN, memoryLimitBytes: 20 });
});

test('jobs come and go: a type is the sum of those that run', async (t) => {
  const world = await startWorld(t);
  await world.pass();
  const params = {
    app: 'shop',
    release: (await world.controller.client.call(apps.get, { params: { app: 'shop' } })).releaseId ?? '',
  };
  for (const web of [3, 1]) {
    await world.controller.client.call(formations.put, { params, body: { processes: { web } } });
    await world.controller.jobsOf('shop', web);
    world.seconds += 3;
    await world.pass();
  }
  const [web] = viewOf(world).types;
  assert.deepEqual([web?.jobs, web?.memoryBytes], [[1, 3, 1], [10, 30, 10].map((one) => one * mebibyte)]);
});

test('an app without room says so, and one that is deleted has nothing', async (t) => {
  const world = await startWorld(t, { roomBytes: 1 });
  await world.controller.deployApp('blog', { web: {} });
  await world.controller.jobsOf('blog', 1);
  await world.pass();
  const all = await world.controller.deps.resources.list(appType);
  const isLeftOut = all.map(({ id }) => world.watch.history.isLeftOut(id));
  assert.equal(isLeftOut.filter((one) => one).length, 1);
  const kept = all.find(({ id }) => world.watch.history.of(id) !== undefined);
  await world.controller.client.call(apps.remove, { params: { app: kept?.spec.name ?? '' }, query: {} });
  await world.pass();
  assert.deepEqual(
    all.filter(({ id }) => world.watch.history.of(id) !== undefined).map(({ id }) => id !== kept?.id),
    [true],
  );
});

test('each sees the figures of their own apps, and what cannot be asked for is refused in words', async (t) => {
  const { world, people, clientOf } = await startGateWorld();
  t.after(() => world[Symbol.asyncDispose]());
  await world.jobsOf('shop', 1);
  await world.web.figures.look(signal);
  const latestFor = async (name: string, app?: string) => {
    await using client = clientOf(people.get(name)?.token ?? '');
    const { apps: all } = await client.call(figures.latest, { query: app === undefined ? {} : { app } });
    return all.map(({ name: shown, types }) => `${shown} ${types.map(({ type, jobs }) => `${type} ${jobs}`).join()}`);
  };
  assert.deepEqual(await latestFor('root'), ['other ', 'router ', 'shop web 1']);
  assert.deepEqual(await latestFor('shop-viewer'), ['shop web 1']);
  assert.deepEqual(await latestFor('nobody'), []);
  assert.deepEqual(await latestFor('root', 'shop'), ['shop web 1']);
  for (const hidden of ['other', 'nosuch']) {
    await assert.rejects(latestFor('shop-viewer', hidden), (error) => {
      return hasCode(error, 'not_found') && error.message.includes(`no app "${hidden}"`);
    });
  }
  const params = { app: 'shop' };
  await using viewer = clientOf(people.get('shop-viewer')?.token ?? '');
  const seen = await viewer.call(figures.ofApp, { params, query: {} });
  assert.deepEqual([seen.points, seen.types[0]?.jobs], [1, [1]]);
  await using foreign = clientOf(people.get('foreign-admin')?.token ?? '');
  await assert.rejects(foreign.call(figures.ofApp, { params, query: {} }), (error) => hasCode(error, 'not_found'));
  await assert.rejects(
    world.client.call(figures.ofApp, { params, query: { since: 'yesterday' } }),
    (error) => hasCode(error, 'invalid') && JSON.stringify(error).includes('since'),
  );
});
