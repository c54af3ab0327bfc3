import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, formations, jobs } from '@flynn/controller/api';
import { startTestController } from '@flynn/controller/testing';
import { fakeClock } from '@flynn/kit/clock';
import { quickClock } from '@flynn/cli/testing';
import { ifFound } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { unwellText, untilHealthy } from './apps.ts';

const { signal } = new AbortController();

test('it waits for the apps, tells how many are healthy, and names those that are not with what is in their way', async () => {
  await using world = await startTestController({ hosts: 2, memoryBytes: 1024 ** 3 });
  const scale = async (app: string, web: number) =>
    world.client.call(formations.put, { params: { app, release: 'v1' }, body: { processes: { web } } });
  for (const app of ['shop', 'blog', 'big']) {
    await world.deployApp(app, { web: { memoryBytes: (app === 'big' ? 512 : 1) * 1024 ** 2 } });
  }
  await scale('shop', 2);
  await world.jobsOf('shop', 2);
  const lines: string[] = [];
  const report = (line: string) => lines.push(line);
  assert.equal((await untilHealthy(world.client, { report, signal })).unwell.length, 0);
  assert.match(lines.at(-1) ?? '', /^3 of 3 healthy$/);

  world.setBehaviour(() => ({ is: 'fail', error: 'its image is not there' }));
  await scale('blog', 2);
  await scale('big', 9);
  const hasFailed = async () => {
    const all = await world.client.call(jobs.list, { params: { app: 'blog' }, query: { all: true } });
    return all.some(({ error }) => error !== undefined);
  };
  await waitFor(hasFailed, { what: 'a job of blog to fail', deadlineMs: 60_000 });
  const clock = fakeClock();
  let found: Awaited<ReturnType<typeof untilHealthy>> | undefined;
  const waiting = untilHealthy(world.client, { report, signal, clock }).then((all) => (found = all));
  const isOver = async () => {
    await clock.advance(2_000);
    return found !== undefined;
  };
  await waitFor(isOver, { what: 'the wait to end', deadlineMs: 120_000, intervalMs: 1 });
  await waiting;
  assert.deepEqual(
    found?.unwell.map(({ app, types }) => `${app} ${types.join()}`),
    ['big web 1/9', 'blog web 1/2'],
  );
  const text = unwellText(found?.unwell ?? []);
  assert.match(text, /✗ blog: web 1\/2 \(.*its image is not there\)\n/);
  assert.match(text, /its log cannot be read: no log aggregator is running[^]*flynn -a blog ps, flynn -a blog log/);
  assert.equal(unwellText([]), '');
});

test('a datastore is waited for until one of its members is up: there may be fewer hosts than it has members', async () => {
  await using world = await startTestController({ hosts: 1 });
  const members = { db: { constraints: [{ attribute: 'host', operator: 'distinct' as const }] } };
  const { app } = await world.deployApp('shop-postgres', members);
  await world.deployApp('shop', { web: {} });
  const params = { app: app.id, release: 'v1' };
  await world.client.call(formations.put, { params, body: { processes: { db: 2 } } });
  await world.jobsOf('shop-postgres', 1);
  await world.jobsOf('shop', 1);
  const datastore = { appliance: 'postgres', resourceId: 'r1' };
  const client: Parameters<typeof untilHealthy>[0] = {
    stream: world.client.stream.bind(world.client),
    async call(route, input, options) {
      const answer = await world.client.call(route, input, options);
      const own = Array.isArray(answer) ? answer.find((one: { id?: string }) => one.id === app.id) : undefined;
      if (own !== undefined) Object.assign(own, { datastore });
      return answer;
    },
  };
  const { count, unwell } = await untilHealthy(client, { report: () => undefined, signal });
  assert.deepEqual([count, unwell], [2, []]);
});

test('an app that somebody deletes meanwhile is waited for no longer', async () => {
  await using world = await startTestController({ hosts: 1 });
  for (const app of ['blog', 'shop']) await world.deployApp(app, { web: {} });
  await world.jobsOf('shop', 1);
  const client: Parameters<typeof untilHealthy>[0] = {
    stream: world.client.stream.bind(world.client),
    async call(route, input, options) {
      const answer = await world.client.call(route, input, options);
      if (route.path === apps.list.path) {
        // At the second look it is gone already.
        await ifFound(world.client.call(apps.remove, { params: { app: 'blog' } }));
        await waitFor(async () => (await world.client.call(apps.list, {})).length === 1, gone);
      }
      return answer;
    },
  };
  const gone = { what: 'the app to be gone', deadlineMs: 60_000 };
  const { count, unwell } = await untilHealthy(client, { report: () => undefined, signal });
  assert.deepEqual([count, unwell], [1, []]);
});

test('of an app with more jobs than a page has all are counted', { timeout: 120_000 }, async () => {
  await using world = await startTestController({ hosts: 4, memoryBytes: 64 * 1024 ** 3 });
  await world.deployApp('shop', { web: { memoryBytes: 1024 ** 2, cpuMillis: 10 } });
  const body = { processes: { web: 1_050 } };
  await world.client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body });
  await world.jobsOf('shop', 1_050);
  const { unwell } = await untilHealthy(world.client, { report: () => undefined, signal, clock: quickClock() });
  assert.deepEqual(unwell, []);
});
