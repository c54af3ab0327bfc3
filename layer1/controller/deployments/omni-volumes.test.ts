/** A part of the platform that has a volume on each of some hosts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { health } from '../health/api.ts';
import { startTestController } from '../testing.ts';

const store = {
  ports: [{ port: 8080, service: { name: 'store' } }],
  volumes: [{ name: 'blobs', path: '/data', isReplaceable: true }],
};

test('what ran on one host runs on as many as its next release says, each updated in its turn', async () => {
  await using world = await startTestController({ hosts: 4 });
  const { app, release: before } = await world.deployApp('store', { web: store }, { isSystem: true });
  const hostsOf = (releaseId: string) =>
    [...world.deps.cell.statuses.snapshot.entries.values()]
      .map(({ value }) => value)
      .filter(({ meta, state }) => state === 'running' && meta['flynn.release'] === releaseId)
      .map(({ hostId }) => hostId)
      .toSorted();
  const [first, ...more] = hostsOf(before.id);
  assert.deepEqual(more, []);
  const hosts: string[][] = [];
  for (const version of ['one', 'two']) {
    const process = { ...store, env: { VERSION: version }, omni: true, maxHosts: 3 };
    const release = await world.makeRelease(app.id, { web: process });
    const ended = await world.deploy(app.id, release.id);
    assert.equal(ended.state, 'complete', ended.error);
    assert.equal(hostsOf(release.id).length, 3);
    hosts.push(hostsOf(release.id));
  }
  assert.ok(first !== undefined && hosts[0]?.includes(first), 'where its volume is it stays');
  assert.deepEqual(hosts[0], hosts[1]);
  const { components } = await world.client.call(health.get, { query: { patienceMs: 10_000 } });
  const part = components.find(({ name }) => name === 'store web');
  assert.deepEqual([part?.wanted, part?.healthy], [3, 3]);
});
