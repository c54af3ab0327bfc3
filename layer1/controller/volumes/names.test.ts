import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownVolumeName, ownVolumeOf } from './names.ts';

test('whose a volume is can be told by its name, where it is an app’s own', () => {
  const own = { appId: 'abcdefghij12', type: 'db', name: 'data.v1.2/x' };
  assert.deepEqual(ownVolumeOf(ownVolumeName(own.appId, own.type, own.name)), own);
  for (const name of ['blobs', 'etcd-01a', 'a.b.c', 'abcdefghij12', 'abcdefghij12.db', 'abcdefghij12..data', '']) {
    assert.equal(ownVolumeOf(name), undefined, name);
  }
});
