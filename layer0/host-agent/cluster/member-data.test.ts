import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '@flynn/kit/ids';
import { createMemoryEngine } from '../engine/memory.ts';
import { etcdVolume } from './etcd-resident.ts';
import { removeMemberData } from './member-data.ts';

test('of what members left all goes that is not kept, and nothing of jobs, whatever their volumes are called', async (t) => {
  const engine = createMemoryEngine({ cluster: 'test' });
  const members = [undefined, '13098348941187339985', '7', newId()].map(etcdVolume);
  const others = ['etcd-data', 'etcd-2024-backup', 'etcd.data', 'db'];
  for (const name of [...members, ...others]) await engine.ensureVolume(`flynn-test.${name}`);
  await engine.ensureVolume('flynn-test2.etcd-7');
  const rest = async (kept: string[]) => {
    await removeMemberData(engine, { cluster: 'test', kept, signal: t.signal });
    return (await engine.listVolumes()).map(({ name }) => name);
  };
  const jobs = [...others.map((name) => `flynn-test.${name}`), 'flynn-test2.etcd-7'];
  assert.deepEqual(await rest(['etcd', 'etcd-7']), ['flynn-test.etcd', 'flynn-test.etcd-7', ...jobs]);
  assert.deepEqual(await rest([]), jobs);
});
