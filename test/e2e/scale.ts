import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { TestCluster } from '../test-cluster.ts';

/** Ids of the jobs that answer for an app over some requests. */
async function answeringJobs(cluster: TestCluster, app: string, requests: number): Promise<Set<string>> {
  const jobs = new Set<string>();
  for (let i = 0; i < requests; i++) {
    const { status, body } = await cluster.get(app);
    assert.equal(status, 200, body);
    jobs.add(/^instance (\S+)$/m.exec(body)?.[1] ?? '');
  }
  return jobs;
}

export function describeScale(theCluster: () => TestCluster): void {
  test('`flynn scale web=3` starts two more, and all three answer', async () => {
    const cluster = theCluster();
    const { stdout } = await cluster.flynn(['-a', 'express', 'scale', 'web=3']);
    assert.match(stdout, /web 1=>3/);
    assert.match(stdout, /scale completed in/);
    const running = (await cluster.jobs('express')).filter((job) => job.state === 'running').map((job) => job.id);
    assert.equal(running.length, 3);
    const answering = await waitFor(
      async () => {
        const jobs = await answeringJobs(cluster, 'express', 30);
        return jobs.size === 3 ? jobs : undefined;
      },
      { what: 'three jobs to answer', deadlineMs: 120_000 },
    );
    assert.deepEqual([...answering].sort(), running.sort());
  });

  test('back to one, the others are gone from `flynn ps` and from the router', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', 'express', 'scale', 'web=1']);
    const left = await waitFor(
      async () => {
        const up = (await cluster.jobs('express')).filter((job) => job.state === 'running');
        return up.length === 1 ? up : undefined;
      },
      { what: 'one job left', deadlineMs: 120_000, intervalMs: 200 },
    );
    // A router that needs more than five seconds to drop a job still has it when it is stopped.
    const isAlone = async (): Promise<true> => {
      assert.deepEqual([...(await answeringJobs(cluster, 'express', 20))], [left[0]?.id]);
      return true;
    };
    await waitFor(isAlone, { what: 'only the job that is left to answer', deadlineMs: 60_000, intervalMs: 200 });
  });

  test('with more to do than its jobs are to have it gets more of them by itself, and fewer again', async () => {
    const cluster = theCluster();
    const express = (...args: string[]) => cluster.flynn(['-a', 'express', ...args]);
    const untilRunning = (count: number) =>
      waitFor(async () => (await cluster.jobs('express')).filter(({ state }) => state === 'running').length === count, {
        what: `${count} jobs of express`,
        deadlineMs: 120_000,
        intervalMs: 500,
      });
    const range = ['--min', '1', '--max', '3', '--window', '10s', '--down-after', '0s'];
    const targets = ['--in-flight', '2', '--cpu', '1000%'];
    {
      // Six at a time, whatever the answers take.
      await using load = new TaskGroup();
      for (let client = 0; client < 6; client += 1) {
        load.run(`client ${client}`, async (signal) => {
          while (!signal.aborted) assert.equal((await cluster.get('express', '/slow?ms=500')).status, 200);
        });
      }
      await express('autoscale', 'set', 'web', ...range, ...targets);
      await untilRunning(3);
      assert.ok(!load.signal.aborted, 'every request was answered');
    }
    await untilRunning(1);
    // What a part that did not answer in time has to do with it is not known for a moment.
    const isTold = async () =>
      /^web +1 +3 .*cpu [\d.]+% of 1000%, [\d.]+ of 2 in flight/m.test((await express('autoscale')).stdout);
    await waitFor(isTold, { what: 'what it goes by to be told', deadlineMs: 120_000, intervalMs: 1_000 });
    assert.match((await express('audit', '--user', 'autoscale')).stdout, /scale express web=3: 3 wanted: a job has /);
    await express('autoscale', 'remove', 'web');
    assert.equal((await cluster.jobs('express')).filter(({ state }) => state === 'running').length, 1);
  });
}
