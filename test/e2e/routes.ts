/** Routes change, jobs come and go, and routers start alone: what is said to be so is so for the very next request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import type { TestCluster } from '../test-cluster.ts';

export function describeRoutes(theCluster: () => TestCluster): void {
  const app = 'hello';
  const statusOf = async (host: string) => (await theCluster().get(host)).status;

  test('a route is in force when the command that added it returns, and out of it when it is removed', async () => {
    const cluster = theCluster();
    for (let round = 0; round < 5; round += 1) {
      const host = `round${round}.example.com`;
      const { stderr } = await cluster.flynn(['-a', app, 'route', 'add', 'http', host]);
      assert.equal(stderr, '');
      assert.equal(await statusOf(host), 200);
      await cluster.flynn(['-a', app, 'route', 'remove', host]);
      assert.equal(await statusOf(host), 404);
    }
  });

  test('maintenance begins and ends with its command; what came is counted', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', app, 'maintenance', 'on']);
    assert.equal(await statusOf(app), 503);
    await cluster.flynn(['-a', app, 'maintenance', 'off']);
    assert.equal(await statusOf(app), 200);
    const { stdout, stderr } = await cluster.flynn(['-a', app, 'route', 'stats']);
    assert.equal(stderr, '');
    assert.match(stdout, /http:\/\/hello\.flynn\.localhost +\d+/);
  });

  test('releases that take each other’s place lose no request, for every router says when it has their jobs', async () => {
    const cluster = theCluster();
    const load = startSteadyLoad((signal) => cluster.get(app, '/', { signal }), {
      lanes: 4,
      pauseMs: 2,
      maxMs: 180_000,
    });
    for (const value of ['1', '2']) await cluster.flynn(['-a', app, 'env', 'set', `ROUND=${value}`]);
    const report = await load.stop();
    assert.deepEqual(report.failures, []);
    assert.ok(report.requests > 100, `only ${report.requests} requests`);
    const log = await cluster.flynn(['-a', 'controller', 'log', '-n', '2000', '--raw']);
    assert.ok(!log.stdout.includes('going on without their word'), 'the routers said so');
  });

  test('a router that starts while the controller is away answers from what was known last', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', app, 'route', 'add', 'http', 'kept.example.com']);
    const [router] = await cluster.containers('router', 'web');
    assert.ok(router);
    const isKept = async () =>
      (await cluster.docker('exec', router, 'cat', '/data/table.jsonl')).stdout.includes('kept.example.com');
    await waitFor(isKept, { what: 'the route to be kept', deadlineMs: 60_000, intervalMs: 500 });
    const controllers = await cluster.containers('controller', 'web');
    await cluster.docker('pause', ...controllers);
    try {
      await cluster.docker('kill', router);
      await waitFor(async () => (await statusOf('kept.example.com')) === 200, {
        what: 'the router to answer again',
        deadlineMs: 60_000,
        intervalMs: 100,
      });
    } finally {
      await cluster.docker('unpause', ...controllers);
    }
    await waitFor(async () => (await statusOf(`controller.${cluster.domain}`)) !== 503, {
      what: 'the controller to answer',
      deadlineMs: 60_000,
      intervalMs: 200,
    });
    await cluster.flynn(['-a', app, 'route', 'remove', 'kept.example.com']);
    assert.equal(await statusOf('kept.example.com'), 404);
  });
}
