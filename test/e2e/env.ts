import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

const awkward = '$HOME `id` #not a comment "double" \'single\' \\ é 漢\nsecond line\ttab  ';

async function envOf(cluster: TestCluster): Promise<Record<string, string>> {
  return JSON.parse((await cluster.get('express', '/env')).body) as Record<string, string>;
}

export function describeEnv(theCluster: () => TestCluster): void {
  test('`flynn env set` makes a release that is live when the command ends, with every byte as given', async () => {
    const cluster = theCluster();
    const { stdout } = await cluster.flynn(['-a', 'express', 'env', 'set', `AWKWARD=${awkward}`, 'GREETING=Good day']);
    assert.match(stdout, /deployed/);
    assert.equal((await envOf(cluster))['AWKWARD'], awkward);
    assert.match((await cluster.get('express')).body, /^Good day\n/);
    assert.equal((await cluster.flynn(['-a', 'express', 'env', 'get', 'AWKWARD'])).stdout, awkward);
  });

  test('`flynn rollback` brings back release and env together', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', 'express', 'rollback', '-y']);
    assert.match((await cluster.get('express')).body, /^Welcome from Flynn/);
    assert.equal((await envOf(cluster))['AWKWARD'], undefined);
    const { stdout } = await cluster.flynn(['-a', 'express', 'env', '--json']);
    assert.equal((JSON.parse(stdout) as Record<string, string>)['GREETING'], undefined);
  });

  test('a program that knows nothing of SIGTERM answers what it was asked before a deployment takes its place', async () => {
    const cluster = theCluster();
    let isAnswered = false;
    const slow = cluster.get('web-worker', '/slow', { signal: AbortSignal.timeout(60_000) }).finally(() => {
      isAnswered = true;
    });
    // Whatever fails before it is waited for, fails the test.
    slow.catch(() => undefined);
    const isBusy = async () => (await cluster.get('web-worker', '/busy')).body === '1';
    await waitFor(isBusy, { what: 'the request to be there', deadlineMs: 60_000, intervalMs: 20 });
    const before = JSON.parse((await cluster.flynn(['-a', 'web-worker', 'release', '--json'])).stdout) as {
      id: string;
    }[];
    await cluster.flynn(['-a', 'web-worker', 'env', 'set', 'TURN=2']);
    assert.ok(!isAnswered, 'it was asked for longer than a deployment takes');
    const { status, body } = await slow;
    assert.deepEqual([status, body], [200, `slowly ${before[0]?.id}\n`]);
  });
}
