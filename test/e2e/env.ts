import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import { assertLive } from './routers-word.ts';

const awkward = '$HOME `id` #not a comment "double" \'single\' \\ é 漢\nsecond line\ttab  ';

/** Of the express app, as it says; nothing where it does not answer. */
async function envOf(cluster: TestCluster): Promise<Record<string, string>> {
  const { status, body } = await cluster.get('express', '/env');
  return status === 200 ? (JSON.parse(body) as Record<string, string>) : {};
}

export function describeEnv(theCluster: () => TestCluster): void {
  test('`flynn env set` makes a release that is live when the command ends, with every byte as given', async () => {
    const cluster = theCluster();
    const { stdout } = await cluster.flynn(['-a', 'express', 'env', 'set', `AWKWARD=${awkward}`, 'GREETING=Good day']);
    assert.match(stdout, /deployed/);
    // All of one answer: a router that was not in time may have it from a job of before the next time.
    let told: Record<string, string> = {};
    await assertLive(cluster, 'express', async () => (told = await envOf(cluster))['GREETING'] === 'Good day');
    assert.equal(told['AWKWARD'], awkward);
    await assertLive(cluster, 'express', async () => (await cluster.get('express')).body.startsWith('Good day\n'));
    assert.equal((await cluster.flynn(['-a', 'express', 'env', 'get', 'AWKWARD'])).stdout, awkward);
  });

  test('`flynn rollback` brings back release and env together', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', 'express', 'rollback', '-y']);
    const isBack = async () => (await cluster.get('express')).body.startsWith('Welcome from Flynn');
    await assertLive(cluster, 'express', isBack);
    const isForgotten = async () => {
      const told = await envOf(cluster);
      return Object.keys(told).length > 0 && told['AWKWARD'] === undefined;
    };
    await assertLive(cluster, 'express', isForgotten);
    const { stdout } = await cluster.flynn(['-a', 'express', 'env', '--json']);
    assert.equal((JSON.parse(stdout) as Record<string, string>)['GREETING'], undefined);
  });

  test('a program that knows nothing of SIGTERM answers what it was asked before a deployment takes its place', async () => {
    const cluster = theCluster();
    const [old = ''] = await cluster.containers('web-worker', 'web');
    const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}';
    const address = (await cluster.docker('inspect', '-f', format, old)).stdout.trim();
    const held = cluster.get('web-worker', '/hold', { signal: AbortSignal.timeout(300_000) });
    // Whatever fails before it is waited for, fails the test.
    held.catch(() => undefined);
    const isHeld = async () => (await cluster.get('web-worker', '/held')).body === '1';
    await waitFor(isHeld, { what: 'the request to be there', deadlineMs: 60_000, intervalMs: 20 });
    const before = JSON.parse((await cluster.flynn(['-a', 'web-worker', 'release', '--json'])).stdout) as {
      id: string;
    }[];
    await cluster.flynn(['-a', 'web-worker', 'env', 'set', 'TURN=2']);
    // No router leads there any more.
    await cluster.exec([process.execPath, '-e', `fetch('http://${address}:8080/let-go')`]);
    const { status, body } = await held;
    assert.deepEqual([status, body], [200, `slowly ${before[0]?.id}\n`]);
  });
}
