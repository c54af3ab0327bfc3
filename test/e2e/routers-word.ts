/** Whether the routers said in time that they have the jobs of deployments: a controller waits five seconds for it. */
import assert from 'node:assert/strict';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

/** In each of the newest deployments of an app, which have ended: the controller's log has all of one once it tells of the end. */
export async function wasWordGiven(cluster: TestCluster, app: string, count = 1): Promise<boolean> {
  const { stdout } = await cluster.flynn(['-a', app, 'deployment', '--json']);
  const newest = (JSON.parse(stdout) as { id: string }[]).slice(0, count);
  assert.equal(newest.length, count, `${app} has no ${count} deployments`);
  const logs = await Promise.all(newest.map(({ id }) => logOf(cluster, app, id)));
  return logs.every((log) => !log.includes('going on without their word'));
}

function logOf(cluster: TestCluster, app: string, deployment: string): Promise<string> {
  return waitFor(
    async () => {
      const log = (await cluster.flynn(['-a', 'controller', 'log', '--raw', '--search', deployment])).stdout;
      return /"step":"(complete|fail)"/.test(log) && log;
    },
    { what: `the log to tell of the end of ${app}'s deployment`, deadlineMs: 120_000, intervalMs: 500 },
  );
}

/** What a release that a command said to be live answers: at once, unless a router did not say in time that it has its jobs. */
export async function assertLive(cluster: TestCluster, app: string, isSo: () => Promise<boolean>): Promise<void> {
  if (await isSo()) return;
  assert.ok(!(await wasWordGiven(cluster, app)), `${app} is not what was said to be live`);
  await waitFor(isSo, { what: `${app} to be what was deployed`, deadlineMs: 60_000, intervalMs: 200 });
}
