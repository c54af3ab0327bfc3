/** What apps are given from outside of them: here by an app of the cluster, asked by its name inside. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';
import { assertLive } from './routers-word.ts';

export function describeResources(theCluster: () => TestCluster): void {
  let provider: Checkout;

  const urlOf = async (): Promise<string> => {
    const { stdout } = await theCluster().flynn(['-a', 'express', 'env', '--json']);
    return (JSON.parse(stdout) as Record<string, string>)['DATABASE_URL'] ?? '';
  };
  const madeKeys = async (): Promise<string[]> => JSON.parse((await provider.get()).body) as string[];

  test('an app of the cluster is a provider, and another app gets variables of it', async () => {
    const cluster = theCluster();
    provider = await cluster.checkout('provider');
    await provider.flynn(['env', 'set', 'PROVIDER_TOKEN=hush']);
    await provider.push();
    await provider.untilAnswers();
    await provider.write('token', 'hush\n');
    await provider.flynn([
      'provider',
      'add',
      'pg',
      'http://provider-web.flynn:8080/resources',
      '--token-file',
      'token',
    ]);
    const refused = await cluster.flynn(['-a', 'express', 'resource', 'add', 'pg', '--config', 'plan=enormous'], {
      code: 1,
    });
    assert.match(refused.stderr, /pg refuses this \(422: there is no plan "enormous"\)/);
    // It answers that it has begun, and is asked again.
    const { stdout } = await cluster.flynn(['-a', 'express', 'resource', 'add', 'pg', '--config', 'plan=slow']);
    assert.match(stdout, /^Created resource \w+ and release v\d+\.\n$/);
    const [key, ...more] = await madeKeys();
    assert.deepEqual(more, []);
    assert.deepEqual(JSON.parse((await provider.get('/begun')).body), [key]);
    assert.equal(await urlOf(), `postgres://user:secret@db/${key}`);
    const hasUrl = async () => (await cluster.get('express', '/env')).body.includes(`postgres://user:secret@db/${key}`);
    await assertLive(cluster, 'express', hasUrl);
  });

  test('while its provider is away a resource that is to go waits for it, and goes by itself', async () => {
    const cluster = theCluster();
    const list = async () => JSON.parse((await cluster.flynn(['resource', '--json'])).stdout) as { id: string }[];
    const [resource] = await list();
    await provider.flynn(['scale', 'web=0']);
    await waitFor(async () => (await cluster.containers('provider', 'web')).length === 0, {
      what: 'it to have ended',
      deadlineMs: 120_000,
      intervalMs: 300,
    });
    const { stdout } = await cluster.flynn(['resource', 'remove', resource?.id ?? '']);
    assert.match(stdout, /goes on by itself; it waits for its provider to take it back: the provider pg cannot be/);
    assert.equal(await urlOf(), '');
    await provider.flynn(['scale', 'web=1']);
    await waitFor(async () => (await list()).length === 0, {
      what: 'the end of the resource',
      deadlineMs: 240_000,
      intervalMs: 500,
    });
    await cluster.flynn(['provider', 'remove', 'pg']);
  });
}
