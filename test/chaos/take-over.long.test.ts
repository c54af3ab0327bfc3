/** Three hosts, of which the one that made the cluster is lost: another keeps the platform from then on, also once it is back. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import { TestCluster } from '../test-cluster.ts';

const maxMs = 20 * 60_000;

suite('the host that made the cluster is lost', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(13, { hosts: 3 });
    await cluster.up();
  });
  after(() => cluster[Symbol.asyncDispose]());

  test('another takes over what it did, while an app goes on; back again it is one of the others', async () => {
    const [first, second, third] = cluster.hosts;
    assert.ok(first && second && third);
    await cluster.flynn(['-a', 'hello', 'scale', 'web=3']);
    await cluster.untilRunning('hello', 'web', 3);
    const pages = await cluster.checkout('static', 'pages');
    await pages.push();
    const keyBefore = await knownKey(second);
    const early = await up(cluster, second, ['--rotate-tokens']);
    assert.match(early.stderr, /another host keeps the platform of [^]*--take-over here/);

    await pages.commit('elsewhere');
    await first.cutPower();
    await untilState(cluster, first, 'away', second);
    await waitFor(() => cluster.flynn(['apps'], { host: second }), {
      what: 'the controller to run elsewhere',
      deadlineMs: 120_000,
      intervalMs: 500,
    });
    // Where the git receiver was lost it has begun elsewhere, with no repositories.
    await pages.push({ host: second });
    const app = (signal: AbortSignal) => cluster.get('hello', '/', { host: second, signal });
    const load = startSteadyLoad(app, { lanes: 1, pauseMs: 100, maxMs });
    const taken = await up(cluster, second, ['--take-over']);
    assert.equal(taken.code, 0, `${taken.stdout}${taken.stderr}`);
    assert.match(taken.stdout, new RegExp(`${second.name} keeps the platform from now on`));
    const { stdout: seen } = await third.exec([cluster.hostCommand, '--state-dir', third.stateDir, 'status']);
    assert.match(seen, new RegExp(`The platform is kept by ${second.name}:`));
    const rotated = await up(cluster, second, ['--rotate-tokens']);
    assert.equal(rotated.code, 0, `${rotated.stdout}${rotated.stderr}`);
    assert.equal(await knownKey(second), keyBefore, 'the git receiver is the one that people know');
    const { requests, failures } = await load.stop();
    assert.ok(requests > 50, `${requests} requests`);
    assert.deepEqual(failures, []);

    await first.boot();
    await untilState(cluster, first, 'up', second);
    const refused = await up(cluster, first, []);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, new RegExp(`${second.name} keeps the platform since .*one of the others from now on`));
    const again = await up(cluster, first, []);
    assert.equal(again.code, 0, `${again.stdout}${again.stderr}`);
    assert.deepEqual(
      [(await first.readCluster())?.hasPlatform, (await second.readCluster())?.hasPlatform],
      [false, true],
    );
    await cluster.untilHealthy();
    await pages.commit('at home');
    await pages.push();
  });
});

function up(cluster: TestCluster, host: ClusterHost, args: readonly string[]) {
  return host.tryScript('up', args, host === cluster.host ? { env: cluster.env } : {});
}

/** What the git receiver shows to people's ssh, as clones know it. */
async function knownKey(host: ClusterHost): Promise<string> {
  const { stdout } = await host.exec(['ssh-keyscan', '-t', 'ed25519', '-p', '2222', '127.0.0.1'], {
    timeoutMs: 20_000,
  });
  assert.match(stdout, /ssh-ed25519/);
  return stdout;
}

async function untilState(cluster: TestCluster, host: ClusterHost, state: string, asked: ClusterHost): Promise<void> {
  const isSo = async (): Promise<boolean> => {
    const { stdout } = await asked.exec([cluster.hostCommand, '--state-dir', asked.stateDir, 'status']);
    return new RegExp(`^${host.name} +${state}`, 'm').test(stdout);
  };
  await waitFor(isSo, { what: `${host.name} to be ${state}`, deadlineMs: 120_000, intervalMs: 1_000 });
}
