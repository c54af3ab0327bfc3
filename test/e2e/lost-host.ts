import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { waitFor } from '@flynn/kit/retry';
import { type LoadReport, startSteadyLoad } from '../steady-load.ts';
import type { Job, TestCluster } from '../test-cluster.ts';
import { appsOf } from './apps.ts';

const hostOf = ({ id }: Job): string => id.split('-')[0] ?? '';

/** What runs of the app on the hosts, whatever the cluster says. */
async function containersOn(cluster: TestCluster, hosts: readonly ClusterHost[]): Promise<string[]> {
  return (await Promise.all(hosts.map((host) => cluster.containers('express', 'web', host)))).flat();
}

/** Digests that the disk of a host's blob store has. */
async function storedBlobs(cluster: TestCluster, host: ClusterHost): Promise<string[]> {
  const [container] = await cluster.containers('blobstore', 'web', host);
  assert.ok(container, `no blob store on ${host.name}`);
  const { stdout } = await cluster.dockerOf(
    host,
    'exec',
    container,
    'find',
    '/data/blobs',
    '-type',
    'f',
    '-printf',
    '%f\n',
  );
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .toSorted();
}

/** Until six jobs run as the cluster says, in six containers that are there. */
async function untilSixRun(cluster: TestCluster, hosts: readonly ClusterHost[]): Promise<Job[]> {
  const [host] = hosts;
  assert.ok(host);
  return waitFor(
    async () => {
      const jobs = await cluster.untilRunning('express', 'web', 6, { host });
      const containers = await containersOn(cluster, hosts);
      if (containers.length !== 6) throw new Error(`${containers.length} containers`);
      return jobs;
    },
    { what: 'six jobs in six containers', deadlineMs: 240_000, intervalMs: 300 },
  );
}

/** The controller may be on its way to another host. */
function untilAnswered<T>(call: () => Promise<T>): Promise<T> {
  return waitFor(call, { what: 'the controller', deadlineMs: 240_000, intervalMs: 500 });
}

function assertServed({ requests, failures, slowestMs }: LoadReport, t: TestContext): void {
  t.diagnostic(`${requests} requests; the slowest was answered after ${(slowestMs / 1_000).toFixed(1)} s`);
  assert.deepEqual(failures, []);
  assert.ok(requests > 20, `only ${requests} requests`);
}

export function describeLostHost(theCluster: () => TestCluster): void {
  test('a host loses power: its jobs run elsewhere, and apps answer through the others all along', async (t) => {
    const cluster = theCluster();
    const [first, second, third] = cluster.hosts;
    assert.ok(first && second && third);
    // A host that lost its power before may still be on its way back.
    await cluster.untilHealthy('express');
    await untilSixRun(cluster, cluster.hosts);
    const load = startSteadyLoad((signal) => cluster.get('express', '/', { signal, host: first }), {
      lanes: 2,
      pauseMs: 20,
      maxMs: 120_000,
    });
    await third.cutPower();
    const jobs = await waitFor(
      async () => {
        const now = await untilSixRun(cluster, [first, second]);
        return now.some((job) => hostOf(job) === third.name) ? undefined : now;
      },
      { what: `six jobs without ${third.name}`, deadlineMs: 300_000, intervalMs: 300 },
    );
    assert.deepEqual(new Set(jobs.map(hostOf)), new Set([first.name, second.name]));
    assertServed(await load.stop(), t);
  });

  test('with its blob store lost too, what is pushed is stored on the two that are left, and goes live', async () => {
    const cluster = theCluster();
    const [first, second] = cluster.hosts;
    assert.ok(first && second);
    for (const host of [first, second]) await cluster.untilAnswers('express', { host });
    await untilAnswered(() => cluster.jobs('express'));
    const app = await cluster.checkout('static', 'stored-twice');
    // The git receiver may be on its way from the lost one.
    const lsRemote = { cwd: app.directory, code: 'any' } as const;
    await waitFor(async () => (await cluster.exec(['git', 'ls-remote', 'flynn'], lsRemote)).code === 0, {
      what: 'the git receiver',
      deadlineMs: 240_000,
      intervalMs: 1_000,
    });
    await app.push();
    await app.untilAnswers();
    // What the lost one had a copy of is on one disk only until the other has taken it over.
    await waitFor(
      async () => {
        const [one, other] = await Promise.all([first, second].map((host) => storedBlobs(cluster, host)));
        return one !== undefined && one.length > 0 && one.join() === other?.join();
      },
      { what: 'two blob stores to have the same blobs', deadlineMs: 300_000, intervalMs: 500 },
    );
  });

  test('back again it takes part, and nothing runs twice', async () => {
    const cluster = theCluster();
    const third = cluster.hosts.at(-1);
    assert.ok(third);
    await third.boot();
    await cluster.untilHealthy('express');
    await untilSixRun(cluster, cluster.hosts);
  });

  test('the host that made the cluster loses power: the others answer, and are scaled, listed and read as before', async (t) => {
    const cluster = theCluster();
    const [first, second, third] = cluster.hosts;
    assert.ok(first && second && third);
    const load = startSteadyLoad((signal) => cluster.get('express', '/', { signal, host: second }), {
      lanes: 2,
      pauseMs: 20,
      maxMs: 180_000,
    });
    await first.cutPower();
    // The controller itself was there, or is at least one of etcd's three members less.
    await untilAnswered(() => cluster.jobs('express', { host: second }));
    await waitFor(
      async () => {
        const now = await untilSixRun(cluster, [second, third]);
        return now.some((job) => hostOf(job) === first.name) ? undefined : now;
      },
      { what: `six jobs without ${first.name}`, deadlineMs: 300_000, intervalMs: 300 },
    );
    await untilAnswered(() => cluster.flynn(['-a', 'express', 'scale', 'web=4'], { host: third }));
    await cluster.untilRunning('express', 'web', 4, { host: second });
    await untilAnswered(() => cluster.flynn(['-a', 'express', 'scale', 'web=6'], { host: second }));
    await untilSixRun(cluster, [third, second]);
    await cluster.get('express', '/', { host: second });
    await waitFor(
      async () => (await cluster.flynn(['-a', 'express', 'log', '-n', '50'], { host: third })).stdout.trim() !== '',
      { what: 'lines of the app', deadlineMs: 180_000, intervalMs: 500 },
    );
    const statesAreRight = async (): Promise<true> => {
      const { stdout } = await cluster.flynn(['host', 'list', '--json'], { host: second });
      const states = (JSON.parse(stdout) as { id: string; state: string }[]).map(({ id, state }) => [id, state]);
      assert.deepEqual(states, [
        [first.name, 'away'],
        [second.name, 'up'],
        [third.name, 'up'],
      ]);
      return true;
    };
    await waitFor(statesAreRight, { what: 'the list of hosts', deadlineMs: 60_000, intervalMs: 500 });
    assertServed(await load.stop(), t);
  });

  test('back again it has its place and its data, and pushes work', async () => {
    const cluster = theCluster();
    const { host } = cluster;
    await host.boot();
    await cluster.untilHealthy('express');
    await untilSixRun(cluster, cluster.hosts);
    await untilAnswered(() => cluster.jobs('express'));
    const app = await cluster.checkout('static', 'after-loss');
    await app.push();
    for (const one of cluster.hosts) await cluster.untilAnswers('after-loss', { host: one });
    await cluster.flynn(['-a', 'after-loss', 'delete', '-y']);
  });

  test('after a power cut of all hosts everything comes back by itself', async () => {
    const cluster = theCluster();
    const apps = await appsOf(cluster);
    await Promise.all(cluster.hosts.map((host) => host.cutPower()));
    await Promise.all(cluster.hosts.map((host) => host.boot()));
    await cluster.untilHealthy('express');
    await waitFor(async () => isDeepStrictEqual(await appsOf(cluster), apps), {
      what: 'the controller to tell the same apps',
      deadlineMs: 240_000,
      intervalMs: 500,
    });
    await untilSixRun(cluster, cluster.hosts);
  });
}
