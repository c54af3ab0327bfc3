/** Three hosts, of which one finds its engine empty at a boot, and one is put back to an earlier day. */
import assert from 'node:assert/strict';
import { cp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { untilStoreLinked } from '@flynn/bootstrap/test-hosts/cluster-view';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import { TestCluster } from '../test-cluster.ts';

const maxMs = 15 * 60_000;

suite('the engine of a host lost all it had', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(13, { hosts: 3 });
    await cluster.up();
  });
  after(() => cluster[Symbol.asyncDispose]());

  test('it gets images and a member of etcd anew; no other host takes it at its word meanwhile', async () => {
    const [first, second, third] = cluster.hosts;
    assert.ok(first && second && third);
    await cluster.flynn(['-a', 'hello', 'scale', 'web=3']);
    await cluster.untilRunning('hello', 'web', 3);
    // Of one that leads the others forget how far it was; of one that follows they go on where it was.
    first.freezeStore();
    await waitFor(() => cluster.flynn(['-a', 'hello', 'env', 'set', 'KEPT=yes'], { host: second }), {
      what: 'another member to lead',
      deadlineMs: 120_000,
      intervalMs: 500,
    });
    first.thawStore();
    await untilStoreLinked(cluster.hosts);
    await cluster.flynn(['-a', 'hello', 'env', 'set', 'ALSO=yes'], { host: second });
    await first.cutPower();
    await waitFor(() => cluster.flynn(['apps'], { host: second }), {
      what: 'the controller to run elsewhere',
      deadlineMs: 120_000,
      intervalMs: 500,
    });
    await cluster.untilRunning('hello', 'web', 3, { host: second, deadlineMs: 120_000 });
    const load = startSteadyLoad((signal) => cluster.get('hello', '/', { host: second, signal }), {
      lanes: 1,
      pauseMs: 100,
      maxMs,
    });
    await first.loseEngineData();
    await first.boot();
    await cluster.untilHealthy();
    await waitFor(() => first.hasStore() && first.storePid() > 0, {
      what: 'a member of etcd on it',
      deadlineMs: 180_000,
      intervalMs: 500,
    });
    await first.up([], { env: cluster.env });
    await cluster.untilHealthy();
    for (const host of cluster.hosts) {
      assert.match((await cluster.flynn(['-a', 'hello', 'env'], { host })).stdout, /ALSO=yes/, host.name);
    }
    const { requests, failures } = await load.stop();
    assert.ok(requests > 50, `${requests} requests`);
    assert.deepEqual(failures, []);
    await second.cutPower();
    await waitFor(() => cluster.flynn(['-a', 'hello', 'env', 'set', 'LAST=yes'], { host: third }), {
      what: 'its member to count',
      deadlineMs: 120_000,
      intervalMs: 1_000,
    });
    await second.boot();
    await cluster.untilHealthy();
  });

  test('a member of a machine that was put back to an earlier day is replaced by another; its jobs run on', async () => {
    const third = cluster.hosts.at(-1);
    assert.ok(third);
    const folder = join(third.directory, 'data/volumes');
    const earlier = join(third.directory, 'earlier');
    await third.cutPower();
    const volume = (await readdir(folder)).find((name) => /\.etcd(-|$)/.test(name));
    assert.ok(volume);
    await cp(join(folder, volume), earlier, { recursive: true });
    await third.boot();
    await cluster.untilHealthy();
    await untilStoreLinked(cluster.hosts);
    await cluster.flynn(['-a', 'hello', 'env', 'set', 'SINCE=yes']);
    await third.cutPower();
    await rm(join(folder, volume), { recursive: true });
    await rename(earlier, join(folder, volume));
    await third.boot();
    const { stdout: seen } = await waitFor(
      async () => {
        const said = await third.exec([cluster.hostCommand, '--state-dir', third.stateDir, 'doctor']);
        return said.stdout.includes(`${third.name} does not answer`) && said;
      },
      { what: 'the doctor to see it', deadlineMs: 120_000, intervalMs: 2_000 },
    );
    assert.match(seen, /flynn-host etcd replace/);
    await cluster.flynn(['-a', 'hello', 'scale', 'web=6']);
    await cluster.untilRunning('hello', 'web', 6);
    const containers = await cluster.containers('hello', 'web', third);
    assert.ok(containers.length > 0, 'none of six jobs is on it');
    const replaced = await third.exec(
      [cluster.hostCommand, '--state-dir', third.stateDir, 'etcd', 'replace', '--yes'],
      { timeoutMs: 400_000 },
    );
    assert.equal(replaced.code, 0, `${replaced.stdout}${replaced.stderr}`);
    await untilStoreLinked(cluster.hosts);
    await cluster.untilHealthy();
    assert.deepEqual(await cluster.containers('hello', 'web', third), containers);
    assert.match((await cluster.flynn(['-a', 'hello', 'env'], { host: third })).stdout, /SINCE=yes/);
  });
});
