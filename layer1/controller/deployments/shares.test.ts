/** What a deployment makes of the weights of its app's routes. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, formations } from '../api.ts';
import { routeSchema } from '../model.ts';
import type { Deployment, Release, Route } from '../model.ts';
import { routing } from '../routes/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { deploymentControls } from './api-controls.ts';
import type { RolloutChange } from './rollout-settings.ts';
import { fitting, onceGone, sharesPieces, whileLeaving } from './shares.ts';

type Shares = Readonly<Record<string, number>>;

function specOf(shares: Shares, changes: { releaseAffinity?: boolean; leavingReleaseId?: string } = {}) {
  const { releaseAffinity = false, ...rest } = changes;
  const weights = Object.entries(shares).map(([release, weight]) => ({ release, weight }));
  const route = { id: 'r', appId: 'a', type: 'http', domain: 'x', service: 's', createdAt: '2026-01-01T00:00:00Z' };
  return routeSchema.parse({ ...route, ...rest, http: { weights, releaseAffinity } });
}

function told({ http, leavingReleaseId }: Pick<Route, 'http' | 'leavingReleaseId'>): string {
  const weights = http.weights.map(({ release, weight }) => `${release}=${weight}`);
  return [...weights, ...(leavingReleaseId === undefined ? [] : [`without ${leavingReleaseId}`])].join(' ');
}

describe('what is left of the weights', () => {
  const table: { what: string; before: Shares; gone: string; live: string | undefined; after: string }[] = [
    { what: 'nothing, once one of two is gone', before: { v7: 95, v8: 5 }, gone: 'v7', live: 'v8', after: '' },
    { what: 'nothing, where a canary fails', before: { v7: 95, v8: 5 }, gone: 'v8', live: 'v7', after: '' },
    { what: 'nothing of what is long gone', before: { v5: 50, v7: 50 }, gone: 'v7', live: 'v8', after: '' },
    { what: 'nothing, where nothing is live', before: { v1: 1 }, gone: 'v1', live: undefined, after: '' },
    { what: 'nothing, where nobody would get any', before: { v7: 1, v8: 0, v9: 0 }, gone: 'v7', live: 'v8', after: '' },
    { what: 'what comes next', before: { v7: 9, v8: 9, v9: 1 }, gone: 'v7', live: 'v8', after: 'v8=9 v9=1' },
    { what: 'what does not name it', before: { v8: 95, v9: 5 }, gone: 'v7', live: 'v8', after: 'v8=95 v9=5' },
  ];
  for (const { what, before, gone, live, after: expected } of table) {
    test(what, () => assert.equal(told(onceGone(specOf(before), { releaseId: gone, live })), expected));
  }

  test('affinity ends with them, and nothing leaves any more', () => {
    const spec = specOf({ v7: 95, v8: 5 }, { releaseAffinity: true, leavingReleaseId: 'v7' });
    const left = onceGone(spec, { releaseId: 'v7', live: 'v8' });
    assert.deepEqual([left.http.releaseAffinity, left.leavingReleaseId], [false, undefined]);
    assert.equal(
      told(onceGone(specOf({ v8: 1 }, { leavingReleaseId: 'v7' }), { releaseId: 'v7', live: 'v8' })),
      'v8=1',
    );
  });

  test('no more routes are changed at once than a transaction takes, and always one', () => {
    const many = (count: number, length: number) => fitting(Array.from({ length: count }, () => length));
    assert.deepEqual(
      [many(0, 1), many(3, 500), many(300, 500), many(9, 300_000), many(2, 2_000_000)],
      [0, 3, 200, 3, 1],
    );
  });

  test('no more routes are read than a step changes, of however many an app has', async () => {
    const briefs = Array.from({ length: 1_000 }, (_, n) => ({
      id: `r${n}`,
      appId: 'a',
      service: 's',
      sharing: ['v7'],
    }));
    const read: string[] = [];
    const spec = specOf({ v7: 95, v8: 5 });
    const find = async (_type: unknown, id: string) => {
      read.push(id);
      const at = '2026-01-01T00:00:00.000Z';
      const known = { uid: id, generation: 1, createdAt: at, updatedAt: at, conditions: [], waitingFor: {} };
      return { type: 'route', id, revision: 1, labels: {}, finalizers: [], spec, status: {}, ...known };
    };
    const deps = { resources: { find }, routesByApp: { of: () => briefs }, now: () => 0 };
    const { signal } = new AbortController();
    const pieces = await sharesPieces(deps, 'a', { what: 'gone', releaseId: 'v7', live: 'v8' }, signal);
    assert.deepEqual([read.length, pieces.length], [200, 200]);
  });

  test('what changes nothing is no change', () => {
    const spec = specOf({ v8: 95, v9: 5 });
    assert.equal(onceGone(spec, { releaseId: 'v7', live: 'v8' }), spec);
    assert.equal(whileLeaving(spec, 'v7'), spec);
    const leaving = whileLeaving(spec, 'v8');
    assert.equal(told(leaving), 'v8=95 v9=5 without v8');
    assert.equal(whileLeaving(leaving, 'v8'), leaving);
  });
});

describe('a deployment of an app whose route has weights', () => {
  let world: TestController;
  before(async () => {
    world = await startTestController();
  });
  after(async () => {
    await world[Symbol.asyncDispose]();
  });

  const web = { web: { ports: [{ port: 8080 }] } };
  const route = (app: string) => world.client.call(routing.get, { params: { app, route: `${app}.flynn.localhost` } });
  const get = (id: string) => world.client.call(deployments.get, { params: { deployment: id } });
  const reach = (id: string, state: Deployment['state']) =>
    waitFor(async () => ((await get(id)).state === state ? true : undefined), {
      what: `deployment ${id} being ${state}`,
      deadlineMs: 60_000,
      intervalMs: 5,
    });

  async function prepare(app: string, rollout: RolloutChange): Promise<{ first: Release; second: Release }> {
    world.setBehaviour(() => ({ is: 'run' }));
    const { release: first } = await world.deployApp(app, web);
    await world.client.call(formations.put, { params: { app, release: first.id }, body: { processes: { web: 6 } } });
    await world.jobsOf(app, 6);
    await world.client.call(apps.update, { params: { app }, body: { rollout } });
    const second = await world.makeRelease(app, web);
    const weights = [
      { release: first.id, weight: 95 },
      { release: second.id, weight: 5 },
    ];
    const params = { app, route: `${app}.flynn.localhost` };
    await world.client.call(routing.update, { params, body: { http: { weights, releaseAffinity: true } } });
    return { first, second };
  }

  async function begin(app: string, release: Release): Promise<string> {
    const { id } = await world.client.call(deployments.create, { params: { app }, body: { releaseId: release.id } });
    return id;
  }

  test('leaves them to people while a canary waits; promoted, the old release leaves; at the end they are gone', async () => {
    const { first, second } = await prepare('shop', { strategy: 'canary' });
    let started = 0;
    world.setBehaviour((job) => {
      if (job.template.meta['flynn.release'] !== second.id) return { is: 'run' };
      started += 1;
      return started <= 1 ? { is: 'run' } : { is: 'hang' };
    });
    const id = await begin('shop', second);
    await reach(id, 'canary');
    assert.equal(told(await route('shop')), `${first.id}=95 ${second.id}=5`);
    await world.client.call(deploymentControls.promote, { params: { deployment: id } });
    // One of the old ones is replaced by then, and nothing goes on.
    await world.jobsOf('shop', 5, ({ state, releaseId }) => state === 'running' && releaseId === first.id);
    assert.equal(told(await route('shop')), `${first.id}=95 ${second.id}=5 without ${first.id}`);
    // Who changes them meanwhile changes how much it gets at most.
    const weights = [
      { release: first.id, weight: 50 },
      { release: second.id, weight: 50 },
    ];
    const params = { app: 'shop', route: 'shop.flynn.localhost' };
    const changed = await world.client.call(routing.update, { params, body: { http: { weights } } });
    assert.equal(told(changed), `${first.id}=50 ${second.id}=50 without ${first.id}`);
    await world.client.call(deploymentControls.abort, { params: { deployment: id }, body: {} });
    await reach(id, 'failed');
    const left = await route('shop');
    assert.deepEqual([told(left), left.http.releaseAffinity], ['', false]);
  });

  test('that nobody waits for takes the old release away from the beginning', async () => {
    const { first, second } = await prepare('desk', {});
    world.setBehaviour(() => ({ is: 'hang' }));
    const id = await begin('desk', second);
    assert.equal(told(await route('desk')), `${first.id}=95 ${second.id}=5 without ${first.id}`);
    await world.client.call(deploymentControls.abort, { params: { deployment: id }, body: {} });
    await reach(id, 'failed');
    assert.equal(told(await route('desk')), '');
  });

  for (const strategy of ['all-at-once', 'one-by-one'] as const) {
    test(`that is through, ${strategy}, has ended them`, async () => {
      const { second } = await prepare(`whole-${strategy}`, { strategy });
      assert.equal((await world.deploy(`whole-${strategy}`, second.id)).state, 'complete');
      assert.equal(told(await route(`whole-${strategy}`)), '');
    });
  }
});
