import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { evaluations, hosts } from './api.ts';
import type { HostView } from './api.ts';
import { formations, jobs } from '../api.ts';
import { platform } from '../platform/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { jobSchema } from '../model.ts';
import { z } from 'zod';

const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);
const web = { web: { ports: [{ port: 8080 }] } };
const changeSchema = z.object({ id: z.string(), object: jobSchema.optional() });

async function hostOf(world: TestController, host: string): Promise<HostView> {
  return world.client.call(hosts.get, { params: { host } });
}

async function scaled(world: TestController, count: number): Promise<void> {
  const params = { app: 'shop', release: 'v1' };
  await world.client.call(formations.put, { params, body: { processes: { web: count } } });
  await world.jobsOf('shop', count);
}

function becomes(world: TestController, host: string, isWanted: (view: HostView) => boolean): Promise<HostView> {
  return waitFor(
    async () => {
      const view = await hostOf(world, host);
      return isWanted(view) ? view : undefined;
    },
    { what: `${host} to be as wanted`, deadlineMs: 30_000, intervalMs: 5 },
  );
}

test('hosts are told with what is set aside on them, and with their jobs and apps', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', web);
  await scaled(world, 4);
  const list = await world.client.call(hosts.list, {});
  assert.deepEqual(
    list.map(({ id, state, jobs }) => ({ id, state, jobs })),
    [
      { id: 'host1', state: 'up', jobs: 2 },
      { id: 'host2', state: 'up', jobs: 2 },
    ],
  );
  assert.ok(list.every(({ claimed, capacity }) => claimed.memoryBytes > 0 && capacity !== undefined));
  const detail = await world.client.call(hosts.get, { params: { host: 'host1' } });
  assert.deepEqual(
    detail.list.map(({ appName, type, state }) => ({ appName, type, state })),
    [
      { appName: 'shop', type: 'web', state: 'running' },
      { appName: 'shop', type: 'web', state: 'running' },
    ],
  );
  await assert.rejects(hostOf(world, 'host9'), isCode('not_found', /no host "host9".*flynn host list/));
});

test('tags are added, changed and taken away, two people at once included', async () => {
  await using world = await startTestController();
  const tag = (tags: Record<string, string | null>) =>
    world.client.call(hosts.tag, { params: { host: 'host1' }, body: { tags } });
  await Promise.all([tag({ disk: 'ssd' }), tag({ zone: 'a' }), tag({ rack: '7' })]);
  assert.deepEqual((await hostOf(world, 'host1')).tags, { disk: 'ssd', rack: '7', zone: 'a' });
  assert.deepEqual((await tag({ rack: null, zone: 'b' })).attributes, { disk: 'ssd', zone: 'b' });
  await assert.rejects(tag({ 'no spaces': 'x' }), isCode('invalid', /tags/));
});

test('a cordoned host keeps what it has and gets nothing more', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', web);
  await scaled(world, 2);
  assert.equal((await world.client.call(hosts.cordon, { params: { host: 'host1' } })).state, 'cordoned');
  await scaled(world, 6);
  assert.equal((await hostOf(world, 'host1')).jobs, 1);
  assert.equal((await world.client.call(hosts.uncordon, { params: { host: 'host1' } })).state, 'up');
});

test('a draining host is emptied without a service falling below its count, and takes jobs again afterwards', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', web);
  await scaled(world, 4);
  const view = await world.client.call(hosts.drain, {
    params: { host: 'host1' },
    body: { deadlineMs: 600_000, maxParallel: 2 },
  });
  assert.equal(view.state, 'draining');
  assert.equal(view.drain?.maxParallel, 2);
  let fewest = Infinity;
  await becomes(world, 'host1', ({ jobs }) => {
    const running = world.hosts.flatMap((host) => host.statuses()).filter(({ state }) => state === 'running');
    fewest = Math.min(fewest, running.length);
    return jobs === 0;
  });
  assert.ok(fewest >= 4, `only ${fewest} ran at a time`);
  await world.jobsOf('shop', 4);
  assert.equal((await world.client.call(hosts.undrain, { params: { host: 'host1' } })).state, 'up');
  assert.equal((await hostOf(world, 'host1')).drain, undefined);
  const answer = await world.client.call(hosts.rebalance, {});
  assert.ok(answer.workloads >= 1);
  await becomes(world, 'host1', ({ jobs }) => jobs === 2);
});

test('a rebalance is asked for with the priority of what it is about', async () => {
  await using world = await startTestController();
  await world.deployApp('router', web, { isSystem: true });
  await world.deployApp('shop', web);
  await world.client.call(hosts.rebalance, {});
  const asked = await waitFor(
    async () => {
      const found = await world.client.call(evaluations.list, {});
      const ofRebalance = found.filter(({ cause }) => cause === 'rebalance');
      return ofRebalance.length === 2 ? ofRebalance : undefined;
    },
    { what: 'both evaluations', deadlineMs: 30_000, intervalMs: 5 },
  );
  assert.deepEqual(Object.fromEntries(asked.map(({ appName, priority }) => [appName, priority])), {
    router: 80,
    shop: 50,
  });
});

test('a drain says nothing of a cordon, and keeps what it is not asked for again', async () => {
  await using world = await startTestController();
  const params = { host: 'host1' };
  const { client } = world;
  await client.call(hosts.cordon, { params });
  const first = await client.call(hosts.drain, { params, body: { deadlineMs: 600_000, maxParallel: 2 } });
  const again = await client.call(hosts.drain, { params, body: {} });
  assert.deepEqual([again.state, again.drain], ['draining', first.drain]);
  assert.equal((await client.call(hosts.undrain, { params })).state, 'cordoned');
  await client.call(hosts.drain, { params, body: {} });
  assert.equal((await client.call(hosts.uncordon, { params })).state, 'up');
  await client.call(hosts.drain, { params, body: {} });
  assert.equal((await client.call(hosts.undrain, { params })).state, 'up');
});

test('a host that is up is not forgotten; one that is away is, once its work is elsewhere', async () => {
  await using world = await startTestController({ hosts: 3 });
  await world.deployApp('shop', web);
  await scaled(world, 6);
  const remove = (host: string) => world.client.call(hosts.remove, { params: { host } });
  await assert.rejects(remove('host1'), isCode('conflict', /host1 is up.*drain/));
  await world.client.call(hosts.tag, { params: { host: 'host3' }, body: { tags: { disk: 'ssd' } } });
  await world.hosts[2]?.[Symbol.asyncDispose]();
  await becomes(world, 'host3', ({ state, jobs }) => state === 'away' && jobs === 0);
  await remove('host3');
  await assert.rejects(hostOf(world, 'host3'), isCode('not_found', /no host/));
  await assert.rejects(remove('host3'), isCode('not_found', /no host/));
});

test('a host that was emptied before it went is forgotten, too', async () => {
  await using world = await startTestController({ hosts: 3 });
  await world.deployApp('shop', web);
  await scaled(world, 6);
  await world.client.call(hosts.drain, { params: { host: 'host3' }, body: {} });
  await becomes(world, 'host3', ({ jobs }) => jobs === 0);
  await world.hosts[2]?.[Symbol.asyncDispose]();
  await becomes(world, 'host3', ({ state }) => state === 'away');
  await world.client.call(hosts.remove, { params: { host: 'host3' } });
  await assert.rejects(hostOf(world, 'host3'), isCode('not_found', /no host/));
});

test('jobs of a host that died are lost: no longer shown, told as such to who follows, shown when asked for', async () => {
  await using world = await startTestController({ hosts: 3 });
  await world.deployApp('shop', web);
  await scaled(world, 3);
  const { signal } = new AbortController();
  const [gone] = (await world.jobsOf('shop', 1, ({ hostId }) => hostId === 'host3')).map(({ id }) => id);
  const stream = world.client.events(platform.events, { query: { app: 'shop', types: 'job' } }, { signal });
  const isFollowed = Promise.withResolvers<void>();
  const told = (async () => {
    const states: unknown[] = [];
    for await (const { data } of stream) {
      const { id, object } = changeSchema.parse(data);
      if (id === gone) states.push(object?.state);
      if (states.length > 0) isFollowed.resolve();
      if (states.at(-1) === 'lost') break;
    }
    return states;
  })();
  await isFollowed.promise;
  await world.hosts[2]?.[Symbol.asyncDispose]();
  const [lost] = await waitFor(
    async () => {
      const all = await world.client.call(jobs.list, { params: { app: 'shop' }, query: { all: true } });
      const found = all.filter(({ state }) => state === 'lost');
      return found.length > 0 && found;
    },
    { what: 'a lost job', deadlineMs: 60_000, intervalMs: 20 },
  );
  assert.deepEqual([lost?.id, lost?.error], [gone, 'its host host3 is away']);
  await world.jobsOf('shop', 3, ({ state, hostId }) => state === 'running' && hostId !== 'host3');
  await world.jobsOf('shop', 3, () => true);
  assert.equal((await told).at(0), 'running');
  assert.deepEqual((await world.client.call(hosts.get, { params: { host: 'host3' } })).list, []);

  // Who begins to follow now is told that it is lost too, before `current`.
  const again = world.client.events(platform.events, { query: { app: 'shop', types: 'job' } }, { signal });
  let last: unknown;
  for await (const { event, data } of again) {
    if (event === 'current') break;
    const { id, object } = changeSchema.parse(data);
    if (id === gone) last = object?.state;
  }
  assert.equal(last, 'lost');
});

test('evaluations say what waits for room and why, and how they ended', async () => {
  await using world = await startTestController({ memoryBytes: 1024 ** 3 });
  const { app } = await world.deployApp('shop', web);
  const body = { processes: { web: 100 } };
  await world.client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body });
  const blocked = await waitFor(
    async () => (await world.client.call(evaluations.list, { query: { app: 'shop', state: 'blocked' } })).at(0),
    { what: 'a blocked evaluation', deadlineMs: 30_000, intervalMs: 5 },
  );
  assert.match(blocked.reason ?? '', /^\d+ placed, \d+ waiting: memory/);
  assert.equal((blocked.placed ?? 0) + (blocked.waiting ?? 0), 100);
  assert.equal(blocked.appName, 'shop');
  assert.ok(blocked.workloadId.startsWith(`${app.id}-`));
  const same = await world.client.call(evaluations.get, { params: { evaluation: blocked.id.slice(0, 6) } });
  assert.equal(same.id, blocked.id);
  await assert.rejects(
    world.client.call(evaluations.get, { params: { evaluation: 'zz' } }),
    isCode('not_found', /no evaluation zz/),
  );
  const ended = await world.client.call(evaluations.list, { query: { app: 'shop', state: 'complete' } });
  assert.ok(ended.length > 0);
});

test('of a type with volumes on several hosts one that is gone for good is begun on another, and told of before', async () => {
  await using world = await startTestController({ hosts: 4 });
  const constraints = [{ attribute: 'host', operator: 'distinct' as const }];
  await world.deployApp('shop', { db: { volumes: [{ name: 'data', path: '/data' }], constraints } });
  await world.client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body: { processes: { db: 3 } } });
  const before = await world.jobsOf('shop', 3);
  const [{ hostId = '' } = {}] = before;
  await world.hosts.find(({ id }) => id === hostId)?.[Symbol.asyncDispose]();
  await becomes(world, hostId, ({ state }) => state === 'away');
  const waits = async () => {
    const [blocked] = await world.client.call(evaluations.list, { query: { app: 'shop', state: 'blocked' } });
    return blocked?.reason;
  };
  const away = new RegExp(`2 placed, 1 waiting: volume data is on ${hostId}, which is away`);
  await waitFor(async () => away.test((await waits()) ?? ''), { what: 'it to wait', deadlineMs: 30_000 });
  const remove = (query: { giveUpVolumes?: boolean } = {}) =>
    world.client.call(hosts.remove, { params: { host: hostId }, query });
  const told =
    /data of shop \(db\), 2 more jobs of which elsewhere[^]*--give-up-volumes[^]*is copied from the other jobs/;
  await assert.rejects(remove(), isCode('conflict', told));
  await remove({ giveUpVolumes: true });
  const after = await world.jobsOf('shop', 3, (job) => job.state === 'running' && job.hostId !== hostId);
  assert.equal(new Set(after.map((job) => job.hostId)).size, 3);
  const others = before.slice(1).map(({ id }) => id);
  assert.ok(
    others.every((id) => after.some((job) => job.id === id)),
    'the others ran on',
  );
});

test('a host that alone has volumes is forgotten only when they are given up, and names them before', async () => {
  await using world = await startTestController({ hosts: 2 });
  await world.deployApp('shop', { db: { volumes: [{ name: 'data', path: '/data' }] } });
  await world.client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body: { processes: { db: 1 } } });
  const [{ hostId = '' } = {}] = await world.jobsOf('shop', 1);
  const detail = await world.client.call(hosts.get, { params: { host: hostId } });
  assert.deepEqual(
    detail.volumes.map(({ appName, type, volumes }) => ({ appName, type, volumes })),
    [{ appName: 'shop', type: 'db', volumes: ['data'] }],
  );
  await world.hosts.find(({ id }) => id === hostId)?.[Symbol.asyncDispose]();
  await becomes(world, hostId, ({ state }) => state === 'away');
  const remove = (query: { giveUpVolumes?: boolean } = {}) =>
    world.client.call(hosts.remove, { params: { host: hostId }, query });
  await assert.rejects(remove(), isCode('conflict', /data of shop \(db\)[^]*--give-up-volumes/));
  await remove({ giveUpVolumes: true });
  await assert.rejects(hostOf(world, hostId), isCode('not_found', /no host/));
  await world.jobsOf('shop', 1, (job) => job.state === 'running' && job.hostId !== hostId);
});
