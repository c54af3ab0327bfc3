/** Routes change, jobs come and go, and routers start alone: what is said to be so is so for the very next request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import type { TestCluster } from '../test-cluster.ts';
import { wasWordGiven } from './routers-word.ts';

export function describeRoutes(theCluster: () => TestCluster): void {
  const app = 'hello';
  const statusOf = async (host: string) => (await theCluster().get(host)).status;

  /**
   * In force when the command returns: whether it was. A router that needs more than five seconds is named, and has it soon
   * after.
   */
  const change = async (args: readonly string[], host: string, status: number): Promise<boolean> => {
    const { stderr } = await theCluster().flynn(['-a', app, ...args]);
    if (!/in force/.test(stderr)) {
      assert.equal(await statusOf(host), status, args.join(' '));
      return true;
    }
    await waitFor(async () => (await statusOf(host)) === status, {
      what: `${status} after ${args.join(' ')}`,
      deadlineMs: 60_000,
      intervalMs: 200,
    });
    return false;
  };

  test('a route is in force when the command that added it returns, and out of it when it is removed', async (t) => {
    let inTime = 0;
    for (let round = 0; round < 5; round += 1) {
      const host = `round${round}.example.com`;
      const isAddedInTime = await change(['route', 'add', 'http', host], host, 200);
      const isRemovedInTime = await change(['route', 'remove', host], host, 404);
      if (isAddedInTime && isRemovedInTime) inTime += 1;
    }
    t.diagnostic(`in time in ${inTime} of 5 rounds`);
    assert.ok(inTime > 0, 'it never was in time');
  });

  test('maintenance begins and ends with its command; what came is counted', async () => {
    const cluster = theCluster();
    await change(['maintenance', 'on'], app, 503);
    await change(['maintenance', 'off'], app, 200);
    // A router that does not answer for five seconds is left out, and named.
    const stdout = await waitFor(
      async () => {
        const stats = await cluster.flynn(['-a', app, 'route', 'stats']);
        return stats.stderr === '' && stats.stdout;
      },
      { what: 'the figures of all routers', deadlineMs: 60_000, intervalMs: 500 },
    );
    assert.match(stdout, /http:\/\/hello\.flynn\.localhost +\d+/);
  });

  test('releases that take each other’s place lose no request, for every router says when it has their jobs', async (t) => {
    const cluster = theCluster();
    const values = ['1', '2', '3'];
    let inTime = 0;
    for (const value of values) {
      const load = startSteadyLoad((signal) => cluster.get(app, '/', { signal }), {
        lanes: 2,
        pauseMs: 20,
        maxMs: 180_000,
      });
      await cluster.flynn(['-a', app, 'env', 'set', `ROUND=${value}`]);
      const report = await load.stop();
      assert.ok(report.requests > 20, `only ${report.requests} requests`);
      // Without its word a router may ask jobs that have gone.
      if (!(await wasWordGiven(cluster, app))) continue;
      assert.deepEqual(report.failures, []);
      inTime += 1;
    }
    t.diagnostic(`in time in ${inTime} of ${values.length} deployments`);
    assert.ok(inTime > 0, 'the routers never said so in time');
  });

  test('a router that starts while the controller is away answers from what was known last', async () => {
    const cluster = theCluster();
    await change(['route', 'add', 'http', 'kept.example.com'], 'kept.example.com', 200);
    const [router] = await cluster.containers('router', 'web');
    assert.ok(router);
    const isKept = async () =>
      (await cluster.docker('exec', router, 'cat', '/data/table.jsonl')).stdout.includes('kept.example.com');
    await waitFor(isKept, { what: 'the route to be kept', deadlineMs: 120_000, intervalMs: 500 });
    const controllers = await cluster.containers('controller', 'web');
    await cluster.docker('pause', ...controllers);
    try {
      await cluster.docker('kill', router);
      await waitFor(async () => (await statusOf('kept.example.com')) === 200, {
        what: 'the router to answer again',
        deadlineMs: 120_000,
        intervalMs: 100,
      });
    } finally {
      await cluster.docker('unpause', ...controllers);
    }
    await waitFor(async () => (await statusOf(`controller.${cluster.domain}`)) !== 503, {
      what: 'the controller to answer',
      deadlineMs: 120_000,
      intervalMs: 200,
    });
    await change(['route', 'remove', 'kept.example.com'], 'kept.example.com', 404);
  });
}
