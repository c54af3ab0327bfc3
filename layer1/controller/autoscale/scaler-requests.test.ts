/** Types that are scaled by what routers count of them: requests, of all routers, over their failures, gaps and replacements. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { routing } from '../routes/api.ts';
import { autoscales } from './api.ts';
import type { Job } from '../model.ts';
import { everyMs, params, startRouter, startWorld } from './scaler-fixture.ts';

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
