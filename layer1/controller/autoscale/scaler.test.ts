/** A whole controller with simulated hosts, routers and time: counts follow what there is to do, and what people do meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { handle, startServer } from '@flynn/kit/http-server';
import { hasCode } from '@flynn/kit/errors';
import { Metrics } from '@flynn/kit/metrics';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, formations } from '../api.ts';
import { audit } from '../audit/api.ts';
import { generic } from '../generic/api.ts';
import { routing } from '../routes/api.ts';
import { latencyBoundsMs } from '../routes/latency.ts';
import { routerStats } from '../routes/stats.ts';
import type { RouteStats } from '../routes/stats.ts';
import { startTestController } from '../testing.ts';
import type { TestController, TestControllerOptions } from '../testing.ts';
import { autoscales } from './api.ts';
import { autoscaleFigures } from './figures.ts';
import type { Job } from '../model.ts';
import type { Autoscale, SettingsChange } from './model.ts';
import { autoscaleType } from './resource.ts';
import { Autoscaler } from './scaler.ts';

const everyMs = 10_000;
const params = { app: 'shop', type: 'web' };
const waiting = { deadlineMs: 30_000, intervalMs: 5 };

/** What there is to do for the app, and how its jobs share it. */
class World {
  readonly controller: TestController;
  nowMs = Date.parse('2030-01-01T00:00:00Z');
  /** Processors that all of its jobs together are busy with. */
  cores = 0;
  readonly #seconds = new Map<string, number>();
  #scaler: Autoscaler;

  constructor(controller: TestController) {
    this.controller = controller;
    this.#scaler = this.#newScaler();
    for (const host of controller.hosts) host.cpuSecondsOf = (jobId) => this.#seconds.get(jobId) ?? 0;
  }

  #newScaler(): Autoscaler {
    return new Autoscaler({ ...this.controller.deps, now: () => this.nowMs });
  }

  /** Another worker takes over: it knows nothing of what was seen. */
  replaceScaler(): void {
    this.#scaler = this.#newScaler();
  }

  async set(change: SettingsChange): Promise<Autoscale> {
    return this.controller.client.call(autoscales.set, { params, body: change });
  }

  async state(): Promise<Autoscale> {
    const [found] = await this.controller.client.call(autoscales.list, { params });
    assert.ok(found);
    return found;
  }

  async count(): Promise<number> {
    const { releaseId = '' } = await this.controller.client.call(apps.get, { params });
    const { processes } = await this.controller.client.call(formations.get, {
      params: { ...params, release: releaseId },
    });
    return processes['web'] ?? 0;
  }

  async scale(count: number): Promise<void> {
    const { releaseId = '' } = await this.controller.client.call(apps.get, { params });
    const body = { processes: { web: count } };
    await this.controller.client.call(formations.put, { params: { ...params, release: releaseId }, body });
  }

  running(): string[] {
    return this.controller.hosts.flatMap((host) =>
      host.statuses().flatMap(({ id, state }) => (state === 'running' ? [id] : [])),
    );
  }

  async look(): Promise<number> {
    const settings = await this.controller.deps.resources.list(autoscaleType);
    return this.#scaler.look(settings, new AbortController().signal);
  }

  /** Ten seconds pass, in which the jobs do what there is; then it is looked. Until all is as it was asked for. */
  async pass(looks: number, settle = (count: number) => this.#allRun(count)): Promise<number[]> {
    const counts: number[] = [];
    for (let look = 0; look < looks; look += 1) {
      this.nowMs += everyMs;
      const busy = this.running();
      for (const id of busy) {
        const more = ((everyMs / 1_000) * this.cores) / busy.length;
        this.#seconds.set(id, (this.#seconds.get(id) ?? 0) + more);
      }
      await this.look();
      const count = await this.count();
      counts.push(count);
      await settle(count);
    }
    return counts;
  }

  async #allRun(count: number): Promise<void> {
    await waitFor(() => this.running().length === count, { what: `${count} jobs to run`, ...waiting });
    // What hosts said has to be in the controller's mirrors too.
    await this.controller.jobsOf('shop', count);
  }
}

async function startWorld(t: TestContext, options: TestControllerOptions = {}): Promise<World> {
  const controller = await startTestController(options);
  t.after(() => controller[Symbol.asyncDispose]());
  await controller.deployApp('shop', { web: { ports: [{ port: 8080 }], cpuMillis: 500 }, clock: {} });
  await controller.stopWorker();
  const world = new World(controller);
  await world.scale(1);
  await controller.jobsOf('shop', 1);
  return world;
}

test('jobs come with what there is to do and go once it has been less for a while, and it is told why', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80 });
  // Of half a processor for each, 80 % are 0.4: three jobs have enough to do.
  world.cores = 1.2;
  const up = await world.pass(12);
  assert.deepEqual(up.slice(0, 3), [1, 1, 1], 'half a window is not seen yet');
  assert.equal(up.at(3), 3);
  assert.deepEqual([...new Set(up.slice(4))], [3], 'and there it stays');
  const { last, seen, held, changes } = await world.state();
  assert.deepEqual([last?.from, last?.to, last?.why, changes], [1, 3, '3 wanted: a job has cpu 240% of 80%', 1]);
  assert.match(seen?.figures ?? '', /^cpu (?:79|80|81)% of 80%$/);
  assert.equal(held, undefined);
  world.cores = 0.3;
  const down = await world.pass(45);
  const first = down.indexOf(1);
  assert.ok(first >= 30 && first < 42, `fewer after five minutes and what the window needs: ${down.join(' ')}`);
  assert.deepEqual(
    down.slice(first),
    down.slice(first).map(() => 1),
  );
  const entries = await world.controller.client.call(audit.list, { query: { app: 'shop', user: 'autoscale' } });
  assert.deepEqual(
    [entries[0], entries.at(-1)].map((entry) => entry?.params['count']),
    ['web=1', 'web=3'],
  );
  assert.equal(entries.at(-1)?.params['why'], '3 wanted: a job has cpu 240% of 80%');
  assert.deepEqual(entries.at(-1)?.changes[0]?.after, { processes: { web: 3, clock: 0 } });
});

test('who takes over begins with nothing, and takes no jobs away before it has seen as long as anybody', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80 });
  world.cores = 1.2;
  await world.pass(5);
  world.cores = 0.3;
  await world.pass(25);
  world.replaceScaler();
  const counts = await world.pass(40);
  assert.deepEqual([...new Set(counts.slice(0, 30))], [3]);
  assert.equal(counts.at(-1), 1);
});

test('a host that says nothing keeps the jobs there are, and is named; more are still added', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 8, cpuPercent: 80, downAfterMs: 0 });
  await world.scale(4);
  await world.controller.jobsOf('shop', 4);
  world.cores = 1.6;
  await world.pass(4);
  const [silent] = world.controller.hosts;
  assert.ok(silent);
  const tell = silent.cpuSecondsOf;
  silent.cpuSecondsOf = () => {
    throw new Error('its engine is away');
  };
  world.cores = 0.2;
  assert.deepEqual([...new Set(await world.pass(12))], [4]);
  const { held } = await world.state();
  assert.equal(held?.reason, 'blind');
  assert.match(held.why, /^host host1 did not tell: /);
  world.cores = 6;
  assert.ok(((await world.pass(6)).at(-1) ?? 0) > 4, 'what the others do is enough for more');
  silent.cpuSecondsOf = tell;
  world.cores = 0.2;
  assert.equal((await world.pass(14)).at(-1), 1);
  assert.equal((await world.state()).held, undefined);
});

test('what people scale is where it begins anew; none is off, and what is outside of the range is refused', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 2, max: 6, cpuPercent: 80 });
  assert.deepEqual(await world.pass(1), [2], 'into its range at once');
  world.cores = 0.8;
  await world.pass(6);
  await world.scale(5);
  await world.controller.jobsOf('shop', 5);
  const counts = await world.pass(45);
  assert.deepEqual([...new Set(counts.slice(0, 30))], [5], 'what was asked for stays for a while');
  assert.equal(counts.at(-1), 2);
  const tooMany = /web=9: web of shop is scaled by itself, from 2 to 6 jobs; .*set web --max 9; .*remove web/;
  await assert.rejects(world.scale(9), (error) => hasCode(error, 'invalid') && tooMany.test(error.message));
  await assert.rejects(world.scale(1), (error) => hasCode(error, 'invalid') && /--min 1/.test(error.message));
  await world.scale(0);
  world.cores = 5;
  assert.deepEqual(await world.pass(8), [0, 0, 0, 0, 0, 0, 0, 0]);
  assert.equal((await world.state()).held?.reason, 'off');
  await world.scale(2);
  await world.controller.jobsOf('shop', 2);
  assert.ok(((await world.pass(6)).at(-1) ?? 0) > 2);
  await world.controller.client.call(autoscales.remove, { params });
  await world.scale(9);
  await world.controller.jobsOf('shop', 9);
});

test('while jobs wait for a host no more are wished for', async (t) => {
  const world = await startWorld(t, { hosts: 1, memoryBytes: 4 * 1024 ** 3 });
  await world.set({ min: 1, max: 100, cpuPercent: 80 });
  world.cores = 40;
  const isSettled = ({ state, error }: Job) => state === 'running' || /memory/.test(error ?? '');
  const counts = await world.pass(12, async (count) => {
    await world.controller.jobsOf('shop', count, isSettled);
  });
  const room = world.running().length;
  const beyond = counts.filter((count) => count > room);
  assert.ok(
    beyond.length > 3 && new Set(beyond).size === 1,
    `one step beyond the room, and no more: ${counts.join(' ')}`,
  );
  const { held } = await world.state();
  assert.equal(held?.reason, 'full');
  assert.match(held.why, /^more are wanted, and \d of those there are to be wait for a host: .*memory/);
});

test('a deployment has its counts to itself; the next release begins with what the last one had', async (t) => {
  const world = await startWorld(t);
  const { client } = world.controller;
  await world.set({ min: 1, max: 6, cpuPercent: 80 });
  world.cores = 1.2;
  await world.pass(5);
  const next = await world.controller.makeRelease('shop', { web: { cpuMillis: 500, env: { A: '2' } }, clock: {} });
  // Nobody carries it out: the worker is away.
  const { id } = await client.call(deployments.create, { params, body: { releaseId: next.id } });
  world.cores = 3;
  await waitFor(() => world.controller.deps.deployments.snapshot.entries.has(id), {
    what: 'the deployment',
    ...waiting,
  });
  assert.deepEqual([...new Set(await world.pass(8, async () => {}))], [3]);
  assert.equal((await world.state()).held?.reason, 'deploying');
  await world.controller.restartWorker();
  await waitFor(async () => (await client.call(deployments.get, { params: { deployment: id } })).endedAt, {
    what: 'its end',
    ...waiting,
  });
  await world.controller.stopWorker();
  await world.controller.jobsOf('shop', 3);
  const counts = await world.pass(8);
  assert.deepEqual(counts.slice(0, 3), [3, 3, 3], 'of new jobs nothing is known yet');
  assert.equal(counts.at(-1), 6);
});

/** A router that counts what the test says. */
async function startRouter(t: TestContext) {
  const state = { isAway: false, counts: [] as Partial<RouteStats>[], asked: [] as string[] };
  const none = { '1xx': 0, '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0 };
  const counts = Array.from({ length: latencyBoundsMs.length + 1 }, () => 0);
  const zero: Omit<RouteStats, 'appId'> = {
    id: 'r',
    service: 'shop-web',
    sinceMs: 0,
    requests: 0,
    active: 0,
    answers: none,
    refusals: {},
    clientsGone: 0,
    brokenOff: 0,
    retries: 0,
    bytesIn: 0,
    bytesOut: 0,
    latency: { counts, sumMs: 0 },
    backends: [],
  };
  const stats = handle(routerStats.all, async ({ query }) => {
    state.asked.push(query.app ?? '');
    if (state.isAway) throw new Error('it is away');
    return state.counts.map((one) => ({ ...zero, appId: query.app ?? '', ...one }));
  });
  const options = { key: 'test-cluster-key', host: '127.0.0.1', port: 0, log: silentLogger() };
  const server = await startServer({ name: 'router', handlers: [stats], ...options });
  t.after(() => server.close());
  return { state, address: `127.0.0.1:${server.port}` };
}

test('web types are scaled by requests, of all routers and of their own service; what routers refused is no work', async (t) => {
  const routers = [await startRouter(t), await startRouter(t)];
  const world = await startWorld(t, { routers: () => routers.map(({ address }) => address) });
  await world.set({ min: 1, max: 20, requestsPerSecond: 50, downAfterMs: 0 });
  let requests = 1_000;
  const passed = async (looks: number, perSecond: number): Promise<number[]> => {
    const all: number[] = [];
    for (let look = 0; look < looks; look += 1) {
      requests += (perSecond * everyMs) / 1_000 / routers.length;
      for (const { state } of routers) {
        state.counts = [
          { requests: requests + 7_000 * look, refusals: { 'rate-limited': 7_000 * look } },
          { id: 'other', service: 'shop-clock', requests: 1_000 * requests },
        ];
      }
      all.push(...(await world.pass(1)));
    }
    return all;
  };
  const up = await passed(10, 300);
  assert.deepEqual([up[2], up.at(-1)], [1, 6], up.join(' '));
  assert.match((await world.state()).last?.why ?? '', /^6 wanted: a job has \d+ of 50 requests\/s$/);
  const [away] = routers;
  assert.ok(away);
  away.state.isAway = true;
  assert.deepEqual([...new Set(await passed(10, 40))], [6]);
  assert.match((await world.state()).held?.why ?? '', /^the router at 127\.0\.0\.1:\d+ did not tell: /);
  away.state.isAway = false;
  const back = await passed(10, 40);
  assert.ok(
    back.slice(0, 5).every((count) => count === 6),
    `neither more for what it counted meanwhile, nor fewer: ${back.join(' ')}`,
  );
  assert.equal(back.at(-1), 1);
  await world.set({ requestsPerSecond: null, requestsInFlight: 10 });
  for (const { state } of routers) state.counts = [{ requests: 0, active: 20 }];
  assert.equal((await world.pass(10)).at(-1), 4);
});

test('an outage is no sign of less to do: what jobs fail at, and what is kept from them, takes none away', async (t) => {
  const router = await startRouter(t);
  const world = await startWorld(t, { routers: () => [router.address] });
  await world.set({ min: 1, max: 10, requestsPerSecond: 50, downAfterMs: 0 });
  const refusals: Record<string, number> = {};
  let requests = 0;
  const passed = async (looks: number, perSecond: number, code?: string): Promise<number[]> => {
    const all: number[] = [];
    for (let look = 0; look < looks; look += 1) {
      requests += perSecond * 10;
      if (code !== undefined) refusals[code] = (refusals[code] ?? 0) + perSecond * 10;
      router.state.counts = [{ requests, refusals: { ...refusals } }];
      all.push(...(await world.pass(1)));
    }
    return all;
  };
  assert.equal((await passed(8, 200)).at(-1), 4);
  for (const code of ['backend-late', 'no-backends', 'maintenance', 'busy']) {
    assert.deepEqual([...new Set(await passed(10, 200, code))], [4], code);
    assert.deepEqual([...new Set(await passed(8, 200))], [4], `after ${code}`);
  }
  assert.equal((await passed(10, 400, 'backend-late')).at(-1), 8, 'what fails is to be done all the same');
  assert.equal((await passed(16, 200, 'rate-limited')).at(-1), 1, 'what was too much of one client is no work');
});

test('after a burst for which there was no room there are fewer again, though some wait for a host; it is told meanwhile', async (t) => {
  const router = await startRouter(t);
  const options = { hosts: 1, memoryBytes: 4 * 1024 ** 3, routers: () => [router.address] };
  const world = await startWorld(t, options);
  await world.set({ min: 1, max: 100, requestsPerSecond: 50, downAfterMs: 0 });
  const isSettled = ({ state, error }: Job) => state === 'running' || /memory/.test(error ?? '');
  let requests = 0;
  const passed = async (looks: number, perSecond: () => number): Promise<number[]> => {
    const all: number[] = [];
    for (let look = 0; look < looks; look += 1) {
      requests += perSecond() * 10;
      router.state.counts = [{ requests }];
      const settle = async (count: number) => void (await world.controller.jobsOf('shop', count, isSettled));
      all.push(...(await world.pass(1, settle)));
    }
    return all;
  };
  const most = (await passed(12, () => 50 * 60)).at(-1) ?? 0;
  const room = world.running().length;
  assert.ok(most > room, `${most} are wanted, and there is room for ${room}`);
  assert.equal((await world.state()).held?.reason, 'full');
  // As many as those that run can do, and perhaps more.
  assert.equal((await passed(10, () => 50 * room)).at(-1), most);
  const { held } = await world.state();
  assert.deepEqual(
    [held?.reason, held?.why],
    ['blind', `${room} of its ${most} jobs run, and have enough to do: there are no fewer jobs until that ends`],
  );
  assert.equal((await passed(14, () => 50)).at(-1), 1);
});

test('while a router is replaced two answer at its address, and what either counted before is no request of now', async (t) => {
  const router = await startRouter(t);
  const world = await startWorld(t, { routers: () => [router.address] });
  await world.set({ min: 1, max: 10, requestsPerSecond: 50, downAfterMs: 0 });
  const counts: number[] = [];
  for (let look = 0; look < 12; look += 1) {
    const isOld = look < 4 || look % 2 === 0;
    const requests = (isOld ? 1_000_000 : 0) + 200 * look;
    router.state.counts = [{ requests, sinceMs: isOld ? 0 : 40_000 }];
    counts.push(...(await world.pass(1)));
  }
  assert.deepEqual([...new Set(counts)], [1]);
});

test('a type that no route leads to keeps its jobs, and it is told why', async (t) => {
  const router = await startRouter(t);
  const world = await startWorld(t, { routers: () => [router.address] });
  const { client } = world.controller;
  await world.set({ min: 1, max: 10, requestsPerSecond: 50, downAfterMs: 0 });
  await world.scale(3);
  await world.controller.jobsOf('shop', 3);
  for (const { id } of await client.call(routing.list, { params })) {
    await client.call(routing.remove, { params: { ...params, route: id } });
  }
  assert.deepEqual([...new Set(await world.pass(10))], [3]);
  const { held } = await world.state();
  assert.deepEqual([held?.reason, held?.why.startsWith('no route leads to it')], ['blind', true]);
  await client.call(routing.create, {
    params,
    body: { domain: 'shop.test', service: 'shop-web' },
  });
  assert.equal((await world.pass(14)).at(-1), 1, 'a route without a request says that there is nothing to do');
  const ofClock = client.call(autoscales.set, {
    params: { app: 'shop', type: 'clock' },
    body: { max: 3, requestsPerSecond: 5 },
  });
  await assert.rejects(ofClock, (error) => hasCode(error, 'invalid') && /no port that a route/.test(error.message));
});

test('each type is looked at as often as its own window needs, whatever those of others are', async (t) => {
  const router = await startRouter(t);
  const world = await startWorld(t, { routers: () => [router.address] });
  const { client } = world.controller;
  await world.controller.restartWorker();
  const { app: other } = await world.controller.deployApp('other', { web: { ports: [{ port: 8080 }] } });
  await world.controller.stopWorker();
  const { appId } = await world.set({ max: 3, requestsPerSecond: 50 });
  const body = { max: 3, requestsPerSecond: 50, windowMs: 10_000 };
  await client.call(autoscales.set, { params: { app: 'other', type: 'web' }, body });
  const nextMs = await world.look();
  router.state.asked.length = 0;
  assert.equal(nextMs, world.nowMs + 2_500);
  for (let look = 0; look < 8; look += 1) {
    world.nowMs += 2_500;
    await world.look();
  }
  const asked = Map.groupBy(router.state.asked, (app) => app);
  assert.deepEqual([asked.get(other.id)?.length, asked.get(appId)?.length], [8, 2]);
  await world.set({ max: 4 });
  world.nowMs += 1;
  await world.look();
  assert.equal(router.state.asked.filter((app) => app === appId).length, 3, 'at once after a change');
});

test('a host that answers now and then is told as one that does not, since when that began', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 8, cpuPercent: 80 });
  world.cores = 0.3;
  await world.pass(6);
  const host = world.controller.hosts.find((one) => one.statuses().some(({ state }) => state === 'running'));
  assert.ok(host);
  const tell = host.cpuSecondsOf;
  const since = new Set<string | undefined>();
  for (let look = 0; look < 6; look += 1) {
    host.cpuSecondsOf = (jobId) => {
      if (look % 2 === 0) throw new Error('its engine is away');
      return tell?.(jobId) ?? 0;
    };
    await world.pass(1);
    since.add((await world.state()).held?.since);
  }
  assert.equal(since.size, 1);
  assert.ok(!since.has(undefined));
  host.cpuSecondsOf = tell;
  await world.pass(5);
  assert.equal((await world.state()).held, undefined);
});

test('how many are wanted is a figure only while it is known', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 8, cpuPercent: 80 });
  world.cores = 0.3;
  await world.pass(6);
  const metrics = new Metrics();
  const figures = await autoscaleFigures(world.controller.deps.resources, metrics);
  t.after(() => figures[Symbol.asyncDispose]());
  const isTold = async () => /^flynn_autoscale_wanted\{.*type="web".*\} 1$/m.test(await metrics.text());
  assert.ok(await isTold());
  await world.scale(0);
  await world.pass(1);
  await waitFor(async () => !(await isTold()), { what: 'the figure to go', ...waiting });
});

test('after a gap in what was seen nothing is known of how long fewer would have done', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80, downAfterMs: 60_000 });
  world.cores = 1.2;
  await world.pass(5);
  assert.equal(await world.count(), 3);
  world.cores = 0.1;
  await world.pass(4);
  world.nowMs += 200_000;
  const counts = await world.pass(14);
  const first = counts.indexOf(1);
  assert.ok(first >= 6, `a whole span after the gap: ${counts.join(' ')}`);
});

test('what is said of an app that is gone goes too, and what nothing can be done for is told', async (t) => {
  const world = await startWorld(t);
  const { client, deps } = world.controller;
  for (const [type, body, pattern] of [
    ['clok', { max: 3, cpuPercent: 50 }, /no process type "clok".*did you mean clock/],
    ['web', { max: 3 }, /say what it is scaled by/],
    ['web', { cpuPercent: 50 }, /max/],
    ['web', { min: 5, max: 3, cpuPercent: 50 }, /at least 5 and at most 3/],
  ] as const) {
    const asked = client.call(autoscales.set, { params: { app: 'shop', type }, body });
    await assert.rejects(asked, (error) => hasCode(error, 'invalid') && pattern.test(error.message), String(pattern));
  }
  await assert.rejects(client.call(autoscales.remove, { params }), (error) => hasCode(error, 'not_found'));
  const left = { id: 'k3v9x2m1q8aa-web', spec: { appId: 'k3v9x2m1q8aa', type: 'web', max: 3, cpuPercent: 50 } };
  const owner = { type: 'app', id: 'k3v9x2m1q8aa' };
  await deps.resources.commit([deps.resources.draft(autoscaleType, { ...left, owner }).piece]);
  await world.pass(1);
  assert.equal(await deps.resources.find(autoscaleType, left.id), undefined);
  const { appId } = await world.set({ max: 3, cpuPercent: 50 });
  await world.controller.restartWorker();
  await client.call(apps.remove, { params });
  assert.deepEqual(await deps.resources.list(autoscaleType, { owner: { type: 'app', id: appId } }), []);
});

test('an object of the kind is applied, told, exported and deleted like any', async (t) => {
  const world = await startWorld(t);
  const { client } = world.controller;
  const kind = { group: 'flynn', version: 'v1', kind: 'Autoscale' };
  const apply = (body: object, query = {}) => client.call(generic.apply, { params: kind, body, query });
  const wanted = { name: 'shop/web', owner: 'app/shop', spec: { max: 4, requestsPerSecond: 20 } };
  assert.equal((await apply(wanted)).outcome, 'created');
  assert.equal((await apply(wanted)).outcome, 'unchanged');
  const { changes } = await apply({ name: 'shop/web', spec: { max: 5, min: 2 } });
  assert.deepEqual(
    changes.map(({ path }) => path),
    ['spec.max', 'spec.min'],
  );
  const shown = await client.call(generic.get, { params: { ...kind, name: 'shop/web' } });
  assert.deepEqual(shown.spec, { min: 2, max: 5, requestsPerSecond: 20, windowMs: 60_000, downAfterMs: 300_000 });
  assert.deepEqual([shown.owner, shown.name], ['app/shop', 'shop/web']);
  assert.equal((await apply({ ...shown })).outcome, 'unchanged', 'what was got can be put back');
  const isInvalid = (pattern: RegExp) => (error: unknown) => hasCode(error, 'invalid') && pattern.test(error.message);
  await assert.rejects(apply({ ...wanted, name: 'web' }), isInvalid(/like shop\/web/));
  await assert.rejects(apply({ name: 'shop/clock', spec: wanted.spec }), isInvalid(/owner: app\/shop/));
  await client.call(apps.create, { body: { name: 'blog' } });
  await assert.rejects(apply({ ...wanted, owner: 'app/blog', name: 'shop/clock' }), isInvalid(/another app/));
  const later = { name: 'later/web', owner: 'app/later', spec: wanted.spec };
  const planned = await apply(later, { dryRun: true, assume: ['app/later'] });
  assert.equal(planned.outcome, 'created');
  // What the same files give the app may have types that the live release has not.
  const beside = { name: 'shop/later', owner: 'app/shop', spec: wanted.spec };
  const assume = ['app/shop'];
  assert.equal((await apply(beside, { dryRun: true, assume })).outcome, 'created');
  await assert.rejects(apply(beside, { dryRun: true }), isInvalid(/no process type "later"/));
  const count = { name: 'shop', spec: { processes: { web: 9 } } };
  const formation = { params: { ...kind, kind: 'Formation' }, body: count, query: { dryRun: true } };
  await assert.rejects(client.call(generic.apply, formation), isInvalid(/from 2 to 5/));
  const app = { name: 'shop', spec: { processes: { web: { count: 9 } } } };
  const ofApp = { params: { ...kind, kind: 'App' }, body: app, query: { dryRun: true } };
  const { notes } = await client.call(generic.apply, ofApp);
  assert.deepEqual(
    notes,
    ['web is scaled by itself, from 2 to 5 jobs: its count of 9 is brought into that'],
    'the same files may give another range',
  );
  await client.call(generic.apply, { ...ofApp, query: {} });
  assert.equal(await world.count(), 5, 'no jobs that would be stopped at once');
  await client.call(generic.apply, { ...ofApp, query: { assume: ['app/shop', 'autoscale/shop/web'] } });
  assert.equal(await world.count(), 9);
  assert.equal((await world.pass(1)).at(-1), 5);
  await client.call(generic.remove, { params: { ...kind, name: 'shop/web' } });
  assert.deepEqual(await client.call(autoscales.list, { params }), []);
});
