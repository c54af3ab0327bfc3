import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { etcdResident, residentFile } from '@flynn/host-agent/cluster/etcd-resident';
import { endpointsFile } from '@flynn/host-agent/cluster/membership';
import { writeVolumesHad } from '@flynn/host-agent/jobs/resident-volumes';
import { checkStoreData, ensureEtcd, updateEtcd } from './etcd.ts';

async function machine() {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-etcd-'));
  const member = { cluster: 'flynn', hostId: 'h1', address: '192.0.2.1', image: 'etcd:1', stateDir };
  return {
    member,
    read: async () => JSON.parse(await readFile(residentFile(stateDir), 'utf8')),
    [Symbol.asyncDispose]: () => rm(stateDir, { recursive: true }),
  };
}

test('the host that makes the cluster gets a member, and later its image and address are brought up to date', async () => {
  await using host = await machine();
  await ensureEtcd(host.member);
  await ensureEtcd({ ...host.member, image: 'etcd:2', address: '192.0.2.9' });
  const { template } = await host.read();
  assert.equal(template.image.name, 'etcd:2');
  assert.ok(template.command.includes('--initial-cluster-state=new'));
  assert.ok(template.command.includes('--initial-advertise-peer-urls=https://192.0.2.9:2380'));
});

test('a cluster is not begun anew unasked where the engine has lost what its only member had', async () => {
  await using host = await machine();
  const check = (there: string[]) => checkStoreData(host.member, async () => there);
  await check([]);
  await ensureEtcd(host.member);
  await check([]);
  const volume = 'flynn-flynn.etcd';
  await writeVolumesHad(dirname(residentFile(host.member.stateDir)), { etcd: [volume] });
  await check([volume]);
  await assert.rejects(check(['flynn-flynn.other']), {
    code: 'conflict',
    message: /no volume flynn-flynn\.etcd any more.*--from-backup FILE/,
  });
  // Others have it all: this host becomes another member by itself.
  await writeFile(endpointsFile(host.member.stateDir), '["https://192.0.2.1:2379","https://192.0.2.2:2379"]');
  await check([]);
});

test('how a member came into its cluster stays, whatever is brought up to date', async () => {
  await using host = await machine();
  await ensureEtcd(host.member);
  const joined = { initialCluster: 'h2=https://192.0.2.2:2380,h1=https://192.0.2.1:2380', memberId: '77' };
  // Made anew of what one member had, a store begins with that one alone, and with data of another name.
  const recovered = { memberId: '78' };
  for (const origin of [joined, recovered]) {
    await writeFile(residentFile(host.member.stateDir), JSON.stringify(etcdResident({ ...host.member, ...origin })));
    for (const again of [ensureEtcd, updateEtcd]) {
      await again({ ...host.member, image: 'etcd:2' });
      assert.deepEqual(await host.read(), etcdResident({ ...host.member, ...origin, image: 'etcd:2' }));
    }
  }
});

test('for whom a member trusts it starts again in its turn alone: whatever is brought up to date, what it was started with stays', async () => {
  await using host = await machine();
  await ensureEtcd(host.member);
  const file = residentFile(host.member.stateDir);
  await writeFile(file, JSON.stringify(etcdResident({ ...host.member, trusted: 'digest' })));
  for (const again of [ensureEtcd, updateEtcd]) {
    await again({ ...host.member, image: 'etcd:2' });
    assert.deepEqual(await host.read(), etcdResident({ ...host.member, image: 'etcd:2', trusted: 'digest' }));
  }
});

test('a host whose member was taken away, or that never had one, gets none', async () => {
  await using host = await machine();
  await updateEtcd(host.member);
  await assert.rejects(host.read(), { code: 'ENOENT' });
  await writeFile(endpointsFile(host.member.stateDir), '["https://192.0.2.2:2379"]');
  await ensureEtcd(host.member);
  await assert.rejects(host.read(), { code: 'ENOENT' });
});
