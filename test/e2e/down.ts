import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

export function describeLostState(theCluster: () => TestCluster): void {
  test('a cluster whose state is in another folder is neither taken away nor made over', async () => {
    const cluster = theCluster();
    // Containers that have ended go by themselves, at any moment.
    const containers = async () =>
      (await cluster.docker('ps', '-q', '--no-trunc', '--filter', 'label=flynn.job')).stdout;
    const volumes = async () => (await cluster.docker('volume', 'ls', '-q')).stdout;
    const before = {
      containers: await containers(),
      volumes: await volumes(),
      agents: cluster.host.pids('host-agent'),
    };
    assert.notEqual(before.containers, '');
    const env = { ...cluster.env, FLYNN_STATE_DIR: join(cluster.directory, 'elsewhere') };
    for (const script of ['down', 'up'] as const) {
      const { code, stderr } = await cluster.host.tryScript(script, [], { env });
      assert.equal(code, 1);
      assert.match(stderr, /containers and \d+ volumes of a cluster flynn, and its state is not in \S+\/elsewhere/);
    }
    const after = { containers: await containers(), volumes: await volumes(), agents: cluster.host.pids('host-agent') };
    assert.deepEqual(after, before);
  });
}

export function describeDown(theCluster: () => TestCluster): void {
  describeLostState(theCluster);

  test('a deleted app leaves nothing behind', async () => {
    const cluster = theCluster();
    const info = JSON.parse((await cluster.flynn(['-a', 'web-worker', 'info', '--json'])).stdout) as { id: string };
    await cluster.flynn(['-a', 'web-worker', 'delete', '-y']);
    await waitFor(async () => (await cluster.get('web-worker')).status === 404, {
      what: 'its route to go',
      deadlineMs: 60_000,
      intervalMs: 200,
    });
    await waitFor(
      async () =>
        (await cluster.docker('ps', '-aq', '--filter', 'label=flynn.meta.flynn.app_name=web-worker')).stdout === '',
      { what: "the app's containers to be removed", deadlineMs: 180_000, intervalMs: 500 },
    );
    const noneIsLeft = async (): Promise<true> => {
      const keys = await cluster.storeKeys();
      assert.deepEqual(
        keys.filter((key) => key.includes(info.id)),
        [],
      );
      return true;
    };
    await waitFor(noneIsLeft, { what: "the app's keys to go", deadlineMs: 60_000, intervalMs: 500 });
  });

  test('a sample app that was deleted stays so through another `up`', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', 'hello', 'delete', '-y']);
    const { stdout } = await cluster.up();
    assert.match(stdout, /Sample app hello: was deleted, and stays so/);
    assert.doesNotMatch(stdout, /sample app is live/);
    assert.equal((await cluster.get('hello')).status, 404);
  });

  test('`down` removes all that `up` made, and nothing else', async () => {
    const cluster = theCluster();
    await cluster.exec([
      'sh',
      '-c',
      `tar -cf - -T /dev/null | docker -H unix://${cluster.host.dockerSocket} import - foreign:1`,
    ]);
    await cluster.docker('create', '--name', 'foreign', '--network', 'none', 'foreign:1', '/nothing');
    await cluster.docker('volume', 'create', 'foreign');
    await cluster.down();
    assert.equal((await cluster.docker('ps', '-a', '--format', '{{.Names}}')).stdout.trim(), 'foreign');
    assert.equal((await cluster.docker('volume', 'ls', '-q')).stdout.trim(), 'foreign');
    assert.deepEqual(
      (await cluster.docker('network', 'ls', '--format', '{{.Name}}')).stdout.trim().split('\n').sort(),
      ['bridge', 'host', 'none'],
    );
    assert.equal((await cluster.docker('images', '--format', '{{.Repository}}')).stdout.trim(), 'foreign');
    assert.equal(existsSync(cluster.env['FLYNN_STATE_DIR'] ?? ''), false);
    assert.deepEqual(cluster.host.processes('host-agent'), []);
  });

  test('a second `down` finds nothing and says so', async () => {
    await theCluster().down();
  });
}
