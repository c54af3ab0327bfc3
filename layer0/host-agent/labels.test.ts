import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobOf } from './host-fixture.ts';
import { isSingleton, jobLabels, keyspaceOfLabels } from './labels.ts';

test('a job that writes a volume alone is never there twice; one that shares it may be', () => {
  const own = { name: 'data', path: '/data' };
  const shared = { name: 'table', path: '/table', isShared: true };
  assert.equal(isSingleton(jobOf('a')), false);
  assert.equal(isSingleton(jobOf('a', {}, { singleton: true })), true);
  assert.equal(isSingleton(jobOf('a', { volumes: [own] })), true);
  // A host that is cut off keeps its router: its clients still reach it.
  assert.equal(isSingleton(jobOf('a', { volumes: [shared] })), false);
  assert.equal(isSingleton(jobOf('a', { volumes: [shared, own] })), true);
  const keyspace = { name: 'shop-db', keyDigest: `sha256:${'0'.repeat(64)}` };
  assert.equal(isSingleton(jobOf('a', { volumes: [own], keyspace })), false);
  assert.equal(isSingleton(jobOf('a', { volumes: [own], keyspace }, { singleton: true })), true);
});

test('a container tells of its keyspace what its template says, and of none where that has none', () => {
  const keyspace = { name: 'shop-db', keyDigest: `sha256:${'0'.repeat(64)}` };
  assert.deepEqual(keyspaceOfLabels(jobLabels(jobOf('a', { keyspace }))), keyspace);
  // Else an image would have a say: containers inherit its labels.
  assert.equal(jobLabels(jobOf('a'))['flynn.keyspace'], '');
  assert.equal(keyspaceOfLabels(jobLabels(jobOf('a', { meta: { 'flynn.keyspace': 'shop-db' } }))), undefined);
  for (const text of ['shop-db', 'shop/db sha256:00', `../x ${keyspace.keyDigest}`]) {
    assert.equal(keyspaceOfLabels({ 'flynn.keyspace': text }), undefined);
  }
});
