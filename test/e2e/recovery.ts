import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import type { TestCluster } from '../test-cluster.ts';

/** App and process type of everything of the platform that runs all the time, the router last. */
const platform = [
  ['controller', 'web'],
  ['controller', 'worker'],
  ['runner', 'runner'],
  ['blobstore', 'web'],
  ['log-aggregator', 'web'],
  ['git-receiver', 'web'],
  ['router', 'web'],
] as const;

async function killAndAwait(cluster: TestCluster, app: string, type: string): Promise<void> {
  const [container] = await cluster.containers(app, type);
  assert.ok(container, `no container of ${app} ${type}`);
  await cluster.docker('kill', container);
  await waitFor(
    async () => {
      const now = await cluster.containers(app, type);
      return now.length > 0 && (now[0] !== container || (await startedAgain(cluster, container)));
    },
    { what: `${app} ${type} to be back`, deadlineMs: 60_000, intervalMs: 200 },
  );
}

async function startedAgain(cluster: TestCluster, container: string): Promise<boolean> {
  return (await cluster.docker('inspect', '-f', '{{.State.Running}}', container)).stdout.trim() === 'true';
}

async function answers(cluster: TestCluster, app: string, deadlineMs: number): Promise<void> {
  await waitFor(async () => (await cluster.get(app)).status === 200, {
    what: `${app} to answer`,
    deadlineMs,
    intervalMs: 200,
  });
}

async function allUp(cluster: TestCluster, deadlineMs: number): Promise<void> {
  await waitFor(
    async () => {
      for (const [app, type] of platform) {
        const up = (await cluster.jobs(app)).filter((job) => job.type === type && job.state === 'running');
        if (up.length === 0) return false;
      }
      return true;
    },
    { what: 'every service of the platform to be running', deadlineMs, intervalMs: 500 },
  );
}

export function describeRecovery(theCluster: () => TestCluster): void {
  test('a killed web container is started again', async () => {
    const cluster = theCluster();
    await killAndAwait(cluster, 'express', 'web');
    await answers(cluster, 'express', 60_000);
  });

  test('each container of the platform comes back; apps stop answering only while the router is down', async () => {
    const cluster = theCluster();
    const load = startSteadyLoad((signal) => cluster.get('express', '/', { signal }), {
      lanes: 2,
      pauseMs: 20,
      maxMs: 300_000,
    });
    for (const [app, type] of platform.filter(([app]) => app !== 'router')) await killAndAwait(cluster, app, type);
    const report = await load.stop();
    assert.deepEqual(report.failures, []);
    assert.ok(report.requests > 100, `only ${report.requests} requests`);
    await killAndAwait(cluster, 'router', 'web');
    await answers(cluster, 'express', 60_000);
    await allUp(cluster, 60_000);
  });

  test('while the git receiver is replaced whoever comes to it waits for the next one', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('static', 'waits');
    const replaced = new AbortController();
    const ask = async (): Promise<void> => {
      while (!replaced.signal.aborted) {
        await cluster.exec(['git', 'ls-remote', 'flynn'], { cwd: app.directory, timeoutMs: 120_000 });
      }
    };
    const replace = async (): Promise<void> => {
      try {
        await cluster.flynn(['-a', 'git-receiver', 'env', 'set', 'REPLACED=1'], { timeoutMs: 120_000 });
      } finally {
        replaced.abort();
      }
    };
    const outcomes = await Promise.allSettled([ask(), replace()]);
    assert.deepEqual(
      outcomes.map(({ status, ...rest }) => ('reason' in rest ? String(rest.reason) : status)),
      ['fulfilled', 'fulfilled'],
    );
  });

  test('a killed host agent comes back and leaves every container running', async () => {
    const cluster = theCluster();
    const before = await cluster.docker('ps', '-q', '--no-trunc');
    const load = startSteadyLoad((signal) => cluster.get('express', '/', { signal }), {
      lanes: 2,
      pauseMs: 20,
      maxMs: 120_000,
    });
    const pid = cluster.host.agentPid();
    process.kill(pid, 'SIGKILL');
    await waitFor(() => cluster.host.agentPid() !== pid, { what: 'another host agent', deadlineMs: 60_000 });
    await allUp(cluster, 60_000);
    const report = await load.stop();
    assert.deepEqual(report.failures, []);
    assert.deepEqual(
      (await cluster.docker('ps', '-q', '--no-trunc')).stdout.split('\n').sort(),
      before.stdout.split('\n').sort(),
    );
  });

  test('after all that, a push still goes live', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('static', 'after');
    await app.push();
    assert.equal((await app.get()).status, 200);
  });

  test('after a power cut everything comes back by itself', async () => {
    const cluster = theCluster();
    const before = await cluster.flynn(['apps', '--all', '--json']);
    await cluster.host.cutPower();
    await cluster.host.boot();
    await answers(cluster, 'express', 120_000);
    await waitFor(async () => (await cluster.flynn(['apps', '--all', '--json'], { code: 'any' })).code === 0, {
      what: 'the controller to answer',
      deadlineMs: 60_000,
      intervalMs: 500,
    });
    await allUp(cluster, 60_000);
    assert.equal((await cluster.flynn(['apps', '--all', '--json'])).stdout, before.stdout);
  });
}
