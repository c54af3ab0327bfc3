/** Three hosts, two of which never come back as they were: the store is made anew of what the third has. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import { TestCluster } from '../test-cluster.ts';

const maxMs = 15 * 60_000;

suite('a store that lost its majority for good', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(13, { hosts: 3 });
    await cluster.up();
  });
  after(() => cluster[Symbol.asyncDispose]());

  test('is made anew of one member, with all that was deployed; hosts that come back one by one are its members again', async () => {
    const [first, second, third] = cluster.hosts;
    assert.ok(first && second && third);
    await cluster.flynn(['-a', 'hello', 'env', 'set', 'KEPT=yes']);
    const asked = await recover(cluster, []);
    assert.deepEqual([asked.code, /etcd recover --yes/.test(asked.stdout)], [2, true]);
    const early = await recover(cluster, ['--yes']);
    assert.equal(early.code, 1);
    assert.match(early.stderr, /it has its majority, and nothing of it is to be made anew/);

    await cluster.flynn(['-a', 'hello', 'scale', 'web=3']);
    await Promise.all([second, third].map((host) => host.cutPower()));
    const load = startSteadyLoad((signal) => cluster.get('hello', '/', { signal }), { lanes: 1, pauseMs: 100, maxMs });
    // One that was broken off long ago, before the agent was led to what it had made.
    await writeFile(join(first.stateDir, 'recovery.json'), JSON.stringify({ memberId: randomUUID() }));
    const readResident = () => readFile(join(first.stateDir, 'resident', 'etcd.json'), 'utf8');
    const former = await readResident();
    const begun = recover(cluster, ['--yes']);
    const isLed = async () => (await readResident()) !== former;
    await waitFor(isLed, { what: 'the agent to be led to the new store', deadlineMs: 120_000, intervalMs: 10 });
    for (const pid of first.pids('etcd recover')) process.kill(pid, 'SIGKILL');
    const brokenOff = await begun;
    assert.notEqual(brokenOff.code, 0);
    assert.doesNotMatch(brokenOff.stdout, /going on/);
    const done = await recover(cluster, ['--yes']);
    assert.match(done.stdout, /^going on with what was begun/);
    assert.equal(done.code, 0, `${done.stdout}${done.stderr}`);
    assert.match(done.stdout, new RegExp(`Given up: .*${second.address}`));
    assert.match((await recover(cluster, ['--yes'])).stderr, /it has its majority/);
    await untilControlled(cluster);
    assert.match((await cluster.flynn(['-a', 'hello', 'env'])).stdout, /KEPT=yes/);
    await cluster.untilRunning('hello', 'web', 3, { deadlineMs: 120_000 });
    await cluster.checkout('static', 'after');
    const { requests, failures } = await load.stop();
    assert.ok(requests > 50, `${requests} requests`);
    assert.deepEqual(failures, [], 'the host that was left went on answering');

    for (const host of [third, second]) {
      await host.boot();
      await untilUp(cluster, host);
    }
    await cluster.untilHealthy();
    assert.ok(cluster.hosts.every((host) => host.hasStore()));
    assert.match((await cluster.flynn(['-a', 'hello', 'env'])).stdout, /KEPT=yes/);
  });
});

function recover(cluster: TestCluster, args: readonly string[]) {
  const command: [string, ...string[]] = [
    cluster.hostCommand,
    '--state-dir',
    cluster.host.stateDir,
    'etcd',
    'recover',
    ...args,
  ];
  return cluster.host.exec(command, { timeoutMs: 300_000 });
}

async function untilControlled(cluster: TestCluster): Promise<void> {
  await waitFor(() => cluster.flynn(['apps']), { what: 'the controller', deadlineMs: 180_000, intervalMs: 500 });
}

/** Its former member is gone, and the host takes part again. */
async function untilUp(cluster: TestCluster, { name }: ClusterHost): Promise<void> {
  const isUp = async (): Promise<boolean> =>
    new RegExp(`^${name} +up`, 'm').test((await cluster.flynn(['host', 'list'])).stdout);
  await waitFor(isUp, { what: `${name} to be up`, deadlineMs: 180_000, intervalMs: 1_000 });
}
