/** Networks of test hosts that are made and removed at the same time, as suites that run side by side do it. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readlink } from 'node:fs/promises';
import { test } from 'node:test';
import { ensureHostNetwork, hostNetworkOf, namespaceFile, removeHostNetwork, suiteHosts } from './network.ts';

const rounds = 5;
const networks = [80, 81, 82].map((index) => hostNetworkOf(suiteHosts, `network${index}`, index));

test('hosts that come and go at the same time share one bridge', async () => {
  const [first, ...others] = networks;
  assert.ok(first !== undefined);
  try {
    for (let round = 0; round < rounds; round += 1) {
      await Promise.all(networks.map(ensureHostNetwork));
      for (const network of networks) {
        assert.ok(existsSync(namespaceFile(network)), network.namespace);
        assert.match(await readlink(`/sys/class/net/${network.link}/master`), /flynntest0$/);
      }
      // One comes back while the others, and perhaps the bridge with them, go.
      await removeHostNetwork(first);
      await Promise.all([ensureHostNetwork(first), ...others.map(removeHostNetwork)]);
      assert.match(await readlink(`/sys/class/net/${first.link}/master`), /flynntest0$/);
      await removeHostNetwork(first);
    }
    for (const network of networks) assert.ok(!existsSync(namespaceFile(network)), network.namespace);
  } finally {
    await Promise.all(networks.map(removeHostNetwork));
  }
});
