import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import type { TestCluster } from '../test-cluster.ts';

const maxMs = 15 * 60_000;
const elsewhere = 'elsewhere.localhost';

export function describeDomain(theCluster: () => TestCluster): void {
  test('a cluster moves to another domain and back while nobody who asks at the one before is refused', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('static', 'mover');
    await app.push();
    await app.untilAnswers();
    await app.flynn(['route', 'add', 'http', `*.mover.${cluster.domain}`, '--sticky']);
    const load = startSteadyLoad((signal) => cluster.get('mover', '/', { signal }), { lanes: 2, pauseMs: 50, maxMs });
    const moved = await up(cluster, '--domain', elsewhere);
    assert.match(moved, new RegExp(String.raw`routes added at ${elsewhere}`));
    assert.match(moved, new RegExp(`--drop-domain ${cluster.domain}`));
    for (const domain of [cluster.domain, elsewhere]) {
      await untilSays(cluster, `mover.${domain}`, 200);
      await untilSays(cluster, `x.mover.${domain}`, 200);
    }
    // Over TLS, by a name of the new domain, with the cluster's own certificate.
    const { stdout } = await cluster.flynn(['cluster', '--json']);
    assert.match(stdout, new RegExp(`https://controller\\.${elsewhere}`));
    await app.commit('at the new domain');
    const pushed = await app.push();
    assert.match(pushed.stderr, new RegExp(`http://mover\\.${elsewhere}`));
    await cluster.flynn(['create', 'newcomer'], { cwd: cluster.directory });
    const { stdout: routes } = await cluster.flynn(['-a', 'newcomer', 'route']);
    assert.match(routes, new RegExp(`newcomer\\.${elsewhere}`));
    assert.ok(!routes.includes(cluster.domain));

    await up(cluster, '--domain', cluster.domain);
    await up(cluster, '--drop-domain', elsewhere);
    await untilSays(cluster, `mover.${elsewhere}`, 404);
    await untilSays(cluster, `controller.${elsewhere}`, 404);
    const { requests, failures } = await load.stop();
    assert.ok(requests > 20, `${requests} requests`);
    assert.deepEqual(failures, []);
    assert.match((await cluster.flynn(['-a', 'newcomer', 'route'])).stdout, new RegExp(`newcomer\\.${cluster.domain}`));
    await cluster.flynn(['-a', 'newcomer', 'delete', '--yes']);
    await app.flynn(['delete', '--yes']);
    assert.equal((await cluster.host.readCluster())?.domains, undefined);
  });

  test('what no domain is dropped or moved to is refused, and the cluster stays as it is', async () => {
    const cluster = theCluster();
    const before = await cluster.host.readCluster();
    for (const [args, said] of [
      [['--domain', cluster.domain], /is the cluster's domain\. Nothing was changed/],
      [['--domain', 'No Such'], /is no domain/],
      [['--drop-domain', elsewhere], /is no former domain/],
    ] as const) {
      const { code, stderr } = await cluster.host.tryScript('up', args, { env: cluster.env });
      assert.notEqual(code, 0);
      assert.match(stderr, said);
    }
    assert.deepEqual(await cluster.host.readCluster(), before);
  });
}

/** Routers hear of the routes that `up` adds and takes away as of all others, a moment later. */
async function untilSays(cluster: TestCluster, name: string, status: number): Promise<void> {
  await waitFor(async () => (await cluster.get(name)).status === status, {
    what: `${status} of ${name}`,
    deadlineMs: 60_000,
    intervalMs: 200,
  });
}

async function up(cluster: TestCluster, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cluster.host.tryScript('up', args, { env: cluster.env });
  assert.equal(code, 0, `${stdout}${stderr}`);
  return stdout;
}
