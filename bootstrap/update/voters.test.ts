import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { cellKeys } from '@flynn/scheduler/cell';
import { hostOf } from '@flynn/scheduler/testing';
import { createMemoryStore } from '@flynn/store/memory';
import { isRestart, missingIn, missingVoters } from './voters.ts';

test('a member that is away is missed where the others are no majority without one that starts anew', () => {
  const missing = (voters: readonly string[], ...there: readonly string[]) => missingVoters(voters, new Set(there));
  assert.deepEqual(missing(['h1', 'h2', 'h3'], 'h1', 'h2', 'h4'), ['h3']);
  assert.deepEqual(missing(['h1', 'h2', 'h3'], 'h1', 'h2', 'h3'), []);
  // Whoever is away has no member.
  assert.deepEqual(missing(['h1', 'h2', 'h3'], 'h1', 'h2', 'h3', 'h5'), []);
  assert.deepEqual(missing(['h1', 'h2', 'h3', 'h4', 'h5'], 'h1', 'h2', 'h3', 'h4'), []);
  assert.deepEqual(missing(['h1', 'h2', 'h3', 'h4', 'h5'], 'h1', 'h2', 'h3'), ['h4', 'h5']);
  // A single one is away for a moment whatever is done.
  assert.deepEqual(missing(['h1'], 'h1', 'h2'), []);
});

test('members start anew where any may be of another image: of an update that is not through, those of the version before', () => {
  const images: Readonly<Record<string, string>> = { '0.1.0': 'etcd:a', '0.2.0': 'etcd:a', '0.3.0': 'etcd:b' };
  const of = (version: string) => images[version];
  assert.equal(isRestart('etcd:b', 'etcd:a', undefined, of), true);
  assert.equal(isRestart('etcd:a', 'etcd:a', undefined, of), false);
  assert.equal(isRestart('etcd:a', 'etcd:a', { version: '0.2.0', previous: '0.1.0' }, of), false, 'both have the same');
  assert.equal(isRestart('etcd:b', 'etcd:b', { version: '0.3.0', previous: '0.2.0' }, of), true);
  assert.equal(isRestart('etcd:a', 'etcd:a', { version: '0.2.0', previous: '0.0.9' }, of), true, 'nobody knows');
  assert.equal(isRestart('etcd:a', 'etcd:a', { version: '0.2.0' }, of), true);
});

test('the host that moves the cluster is there, though its agent is not: that is its own to bring back', async () => {
  await using store = createMemoryStore();
  const members = ['h1', 'h2', 'h3'].map((id, index) => {
    return { put: memberKey(id), value: JSON.stringify({ address: `10.0.0.${index + 1}`, state: 'voter' }) };
  });
  const hosts = ['h2', 'h3'].map((id) => ({ put: cellKeys.host(id), value: JSON.stringify(hostOf(id)) }));
  await store.transact({ then: [...members, ...hosts] });
  assert.deepEqual(await missingIn(store, 'h1'), []);
  assert.deepEqual(await missingIn(store, 'h2'), ['h1']);
});
