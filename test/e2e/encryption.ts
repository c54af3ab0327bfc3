import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { askSteadily } from '../steady-asking.ts';
import type { TestCluster } from '../test-cluster.ts';

/** As `flynn-host network` tells. */
type Shown = { host: string; network: { encryption: string; hosts: { way: string; isHeard?: boolean }[] } };

async function waysOf(cluster: TestCluster): Promise<Shown[]> {
  return JSON.parse((await cluster.exec([cluster.hostCommand, 'network', '--json'])).stdout) as Shown[];
}

/** Through the routers of all hosts, so that most requests cross from one to another. What came besides 200. */
async function askedMeanwhile(cluster: TestCluster, task: () => Promise<void>): Promise<string[]> {
  const stop = new AbortController();
  const others: string[] = [];
  let asked = 0;
  const asking = askSteadily(
    async (at) => {
      const host = cluster.hosts[at % cluster.hosts.length] ?? cluster.host;
      asked += 1;
      try {
        const { status } = await cluster.get('express', '/', { host });
        if (status !== 200) others.push(`${host.name}: ${status}`);
      } catch (error) {
        others.push(`${host.name}: ${String(error)}`);
      }
    },
    { everyMs: 25, signal: stop.signal },
  );
  try {
    await task();
    await waitFor(() => asked > 50, { what: 'enough requests', deadlineMs: 60_000 });
  } finally {
    stop.abort();
    await asking;
  }
  return others;
}

export function describeEncryption(theCluster: () => TestCluster): void {
  test('a cluster is encrypted between its hosts, and in clear again, without a failed request', async () => {
    const cluster = theCluster();
    const change = (command: string) => async (): Promise<void> => {
      await cluster.exec([cluster.hostCommand, 'network', command]);
    };
    assert.deepEqual(await askedMeanwhile(cluster, change('encrypt')), []);
    const encrypted = await waysOf(cluster);
    assert.equal(encrypted.length, cluster.hosts.length);
    for (const { host, network } of encrypted) {
      assert.equal(network.encryption, 'on', host);
      assert.deepEqual(
        network.hosts.map(({ way, isHeard }) => [way, isHeard]),
        cluster.hosts.slice(1).map(() => ['wireguard', true]),
      );
    }
    assert.deepEqual(await askedMeanwhile(cluster, change('decrypt')), []);
    for (const { host, network } of await waysOf(cluster)) {
      assert.equal(network.encryption, 'off', host);
      assert.ok(network.hosts.every(({ way }) => way === 'direct'));
    }
  });
}
