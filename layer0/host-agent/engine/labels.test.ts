import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobOf } from '../host-fixture.ts';
import { createBody } from '../docker/containers.ts';
import { diskLimitOf } from '../disk/meter.ts';
import { isSingletonContainer } from '../fencing/fence.ts';
import { isSingleton, jobLabels, keyspaceOfLabels, label, metaOfLabels, ownLabel, residentOf } from './labels.ts';
import { containerSpecOf, isOfFormerPlace, saysMoreThanJob } from '../containers/spec.ts';
import { keyAlone, withoutIdentity } from '../trust/agent-rules.ts';

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

test('an image says nothing in our name: of its containers is so only what their job says', () => {
  const job = jobOf('a', { meta: { 'flynn.app': 'mine' } });
  const host = {
    cluster: 'c',
    hostId: 'h1',
    externalAddress: '192.0.2.1',
    gateway: '10.0.0.1',
    networkName: 'flynn0',
    storeEndpoints: () => ['https://192.0.2.1:2379'],
  };
  const spec = containerSpecOf(job, 'evil', host);
  const { metaPrefix, ...names } = label;
  const ofImage = {
    ...Object.fromEntries(Object.values(names).map((name) => [name, '1'])),
    [label.resident]: 'etcd',
    [label.job]: 'resident-etcd',
    [label.tempDisk]: '1000000000000000',
    [label.access]: 'agents,store',
    [label.store]: 'https://192.0.2.9:2379',
    [`${metaPrefix}flynn.app`]: 'other',
    [`${metaPrefix}flynn.system`]: 'true',
    maintainer: 'me',
  };
  // As the engine does it: what a container does not say it has from its image.
  const labels: Record<string, string> = { ...ofImage, ...createBody(spec, 'c', ofImage).Labels };
  const told = Object.values(names).filter((name) => ownLabel(labels, name) !== undefined);
  assert.deepEqual(
    told.sort(),
    [label.cluster, label.job, label.workload, label.version, label.group, label.address].sort(),
    'of each other label it has to be said what a job has that says nothing of it',
  );
  assert.equal(labels['maintainer'], 'me');
  const container = {
    id: 'x',
    name: spec.name,
    labels,
    state: 'running' as const,
    imageId: 'i',
    tty: false,
    volumes: [],
    createdAtMs: 0,
    isOutOfMemory: false,
  };
  assert.equal(residentOf(labels), undefined);
  assert.equal(diskLimitOf(container), undefined);
  assert.equal(isSingletonContainer(container), false);
  assert.equal(isOfFormerPlace(container, host), false);
  assert.equal(saysMoreThanJob(container, job, host), false);
  // A version before left them as they were.
  for (const name of [label.tempDisk, label.singleton, label.identity, label.resident, `${metaPrefix}flynn.system`]) {
    const before = { labels: { ...spec.labels, [name]: '1' } };
    assert.equal(saysMoreThanJob(before, job, host), true, name);
  }
  const ofPlatform = { ...spec.labels, [label.image]: 'etcd', [label.node]: '1', [label.stack]: 'sha256:1' };
  assert.equal(saysMoreThanJob({ labels: ofPlatform }, job, host), false);
  assert.deepEqual(metaOfLabels(labels), { 'flynn.app': 'mine' });
  assert.deepEqual([keyAlone([container], []), withoutIdentity([container])], [0, 0]);
});

test('of a job that an agent of before has made a container for, an image’s word does not make a resident', () => {
  const labels = { [label.resident]: 'etcd', ...jobLabels(jobOf('a')) };
  assert.equal(residentOf(labels), undefined);
  assert.equal(residentOf({ ...labels, [label.job]: 'resident-etcd' }), 'etcd');
});
