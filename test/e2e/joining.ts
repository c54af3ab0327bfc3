import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import type { TestCluster } from '../test-cluster.ts';

/** The token with one of its parts changed: `a` addresses, `f` fingerprint, `s` secret. */
function tamper(token: string, part: 'a' | 'f' | 's', change: (value: string) => string): string {
  const parts = JSON.parse(Buffer.from(token, 'base64url').toString()) as { a: string[]; f: string; s: string };
  const changed = { ...parts, [part]: part === 'a' ? parts.a.map(change) : change(parts[part]) };
  return Buffer.from(JSON.stringify(changed)).toString('base64url');
}

const reversed = (text: string): string => text.split('').toReversed().join('');

async function images(cluster: TestCluster, host: ClusterHost): Promise<string[]> {
  return (await cluster.dockerOf(host, 'images', '-q', '--filter', 'label=flynn.image')).stdout.trim().split('\n');
}

export function describeJoining(theCluster: () => TestCluster): void {
  test('a host with a wrong token is told why it is not let in, and nothing is changed anywhere', async () => {
    const cluster = theCluster();
    await cluster.upFirst();
    const [, second] = cluster.hosts;
    assert.ok(second);
    const token = (await cluster.host.up(['--token'])).trim();
    const keys = await cluster.storeKeys();
    const cases: readonly [string, RegExp][] = [
      ['no-token', /flynn-host token/],
      [tamper(token, 's', reversed), /token/],
      [tamper(token, 'f', reversed), /not of the cluster/],
      [tamper(token, 'a', () => '192.0.2.254'), /192\.0\.2\.254/],
    ];
    for (const [wrong, expected] of cases) {
      const { stderr } = await cluster.join(second, wrong, { code: 1 });
      assert.match(stderr, expected);
    }
    // Services that jobs just begin to have are nobody's joining.
    const isNew = (key: string): boolean =>
      /^\/flynn\/(network|cluster)\/(?!vouched-)/.test(key) && !keys.includes(key);
    assert.deepEqual((await cluster.storeKeys()).filter(isNew), []);
    assert.equal(existsSync(`${second.stateDir}/cluster.json`), false);
    assert.deepEqual(second.pids('host-agent'), []);
  });

  test('two that join at once become hosts like the first: subnets, routers and members of etcd of their own', async () => {
    const cluster = theCluster();
    await cluster.joinOthers();
    const settled = await Promise.all(cluster.hosts.map((host) => host.readCluster()));
    assert.equal(new Set(settled.map((one) => one?.subnet)).size, 3);
    await cluster.untilHealthy();
    for (const host of cluster.hosts) assert.equal((await cluster.containers('router', 'web', host)).length, 1);
    const stores = await cluster.untilRunning('blobstore', 'web', 3, { deadlineMs: 240_000 });
    assert.equal(new Set(stores.map(({ id }) => id.split('-')[0])).size, 3, 'each has a blob store of its own');
  });

  test('they have built no image, and fetched only those they run', async () => {
    const cluster = theCluster();
    const [all = [], ...others] = await Promise.all(cluster.hosts.map((host) => images(cluster, host)));
    for (const own of others) {
      assert.ok(
        own.every((id) => all.includes(id)),
        `${own.join(' ')} not of ${all.join(' ')}`,
      );
      assert.ok(own.length < all.length);
    }
  });

  test('`up` again on any of them changes nothing', async () => {
    const cluster = theCluster();
    const running = () => Promise.all(cluster.hosts.map((host) => cluster.dockerOf(host, 'ps', '-q', '--no-trunc')));
    const before = (await running()).map(({ stdout }) => stdout);
    await cluster.upFirst();
    await cluster.hosts[1]?.up();
    assert.deepEqual(
      (await running()).map(({ stdout }) => stdout),
      before,
    );
  });
}
