import assert from 'node:assert/strict';
import { test } from 'node:test';
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
}
