/** Whether the routers said in time that they have the jobs of deployments: a controller waits five seconds for it. */
import assert from 'node:assert/strict';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

/** Of the newest deployment of an app, which is complete: the controller's log has all of it once it tells of the end. */
export async function wasWordGiven(cluster: TestCluster, app: string): Promise<boolean> {
  const { stdout } = await cluster.flynn(['-a', app, 'deployment', '--json']);
  const [newest] = JSON.parse(stdout) as { id: string }[];
  assert.ok(newest, `${app} has no deployment`);
  const told = await waitFor(
    async () => {
      const log = (await cluster.flynn(['-a', 'controller', 'log', '--raw', '--search', newest.id])).stdout;
      return log.includes('"step":"complete"') && log;
    },
    { what: `the log to tell of the end of ${app}'s deployment`, deadlineMs: 120_000, intervalMs: 500 },
  );
  return !told.includes('going on without their word');
}

/** What a release that a command said to be live answers: at once, unless a router did not say in time that it has its jobs. */
export async function assertLive(cluster: TestCluster, app: string, isSo: () => Promise<boolean>): Promise<void> {
  if (await isSo()) return;
  assert.ok(!(await wasWordGiven(cluster, app)), `${app} is not what was said to be live`);
  await waitFor(isSo, { what: `${app} to be what was deployed`, deadlineMs: 60_000, intervalMs: 200 });
}
