import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasErrno } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

export function describePlacement(theCluster: () => TestCluster): void {
  test('jobs are where constraints say, and a host tagged router=no has no router, through a deployment of it too', async () => {
    const cluster = theCluster();
    const [first, second, third] = cluster.hosts;
    assert.ok(first && second && third);
    await cluster.flynn(['host', 'tag', third.name, 'disk=ssd', 'router=no']);
    await cluster.flynn(['-a', 'hello', 'constraint', 'set', 'web', 'disk=ssd']);
    const [job] = await cluster.untilRunning('hello', 'web', 1);
    assert.ok(job?.id.startsWith(`${third.name}-`), job?.id);
    assert.match((await cluster.flynn(['-a', 'hello', 'constraint'])).stdout, /^web +disk=ssd$/m);
    const isClosed = async (): Promise<boolean> => {
      try {
        await cluster.get('hello', '/', { host: third });
        return false;
      } catch (error) {
        return hasErrno(error, 'ECONNREFUSED');
      }
    };
    await waitFor(isClosed, { what: `the router of ${third.name} to go`, deadlineMs: 180_000, intervalMs: 200 });
    // Its port is closed before its container has ended.
    await waitFor(async () => (await cluster.containers('router', 'web', third)).length === 0, {
      what: 'its container to end',
      deadlineMs: 60_000,
      intervalMs: 200,
    });
    await cluster.flynn(['-a', 'router', 'env', 'set', 'PLACED=1']);
    assert.deepEqual(await cluster.containers('router', 'web', third), []);
    for (const host of [first, second]) await cluster.untilAnswers('hello', { host });

    await cluster.flynn(['-a', 'hello', 'constraint', 'set', 'web', 'disk=']);
    await cluster.flynn(['host', 'untag', third.name, 'disk', 'router']);
    await cluster.untilHealthy();
  });
}
