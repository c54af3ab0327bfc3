import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { hasCode } from '@flynn/kit/errors';
import { cellKeys } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { joinText, judgeFormation, missingOf, readFormation } from './formation.ts';
import { readOptions, settle } from '../settings.ts';

const cluster = settle(readOptions({}), undefined, {
  hostname: 'host',
  address: '192.0.2.1',
  now: new Date(0),
  newSecret: () => 'secret',
  authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
});
const three = ['192.0.2.1', '192.0.2.2', '192.0.2.3'];
const whats = (minHosts: number, peers: readonly string[], its = cluster): string[] =>
  judgeFormation({ minHosts, peers }, its).map(({ what }) => what);

test('what was typed is read as it was meant, or refused', () => {
  assert.equal(readFormation({}), undefined);
  assert.deepEqual(readFormation({ minHosts: '3' }), { minHosts: 3, peers: [] });
  assert.deepEqual(readFormation({ peerIps: '192.0.2.1, 192.0.2.2,192.0.2.3' }), { minHosts: 3, peers: three });
  for (const given of [
    { minHosts: '0' },
    { minHosts: '1.5' },
    { minHosts: 'three' },
    { peerIps: 'a,b' },
    { peerIps: '' },
  ]) {
    assert.throws(
      () => readFormation(given),
      (error) => hasCode(error, 'invalid'),
      JSON.stringify(given),
    );
  }
});

test('what can become a cluster is not complained of', () => {
  assert.deepEqual(whats(1, []), []);
  assert.deepEqual(whats(3, []), []);
  assert.deepEqual(whats(3, three), []);
  assert.deepEqual(whats(3, [...three, '192.0.2.4']), []);
});

test('two hosts, a host named twice, too few of them, and a list without this one are refused', () => {
  assert.match(whats(2, []).join(), /two hosts are no safer than one/);
  assert.match(whats(3, [...three, '192.0.2.3']).join(), /names 192\.0\.2\.3 twice/);
  assert.match(whats(4, three).join(), /names 3 of the 4 hosts/);
  assert.match(whats(3, ['192.0.2.7', '192.0.2.8', '192.0.2.9']).join(), /does not name this machine.*192\.0\.2\.1/);
  assert.match(whats(3, three, { ...cluster, hasPlatform: false }).join(), /which another one made/);
});

test('who has not come is named, the store’s votes too, until all are there', async () => {
  await using store = createMemoryStore();
  const put = (key: string, value: unknown) => store.transact({ then: [{ put: key, value: JSON.stringify(value) }] });
  const capacity = { memoryBytes: 1, cpuMillis: 1 };
  const come = (id: string, address: string) =>
    put(cellKeys.host(id), { id, address, apiPort: 1113, capacity, startedAt: 1 });
  const vote = (id: string, state: string) => put(memberKey(id), { memberId: id, state });
  const named = { minHosts: 3, peers: three };
  await come('h1', '192.0.2.1');
  await vote('h1', 'voter');
  assert.deepEqual(await missingOf(store, named), ['192.0.2.2', '192.0.2.3', '2 more members of the store']);
  assert.deepEqual(await missingOf(store, { minHosts: 3, peers: [] }), ['2 more hosts', '2 more members of the store']);
  assert.deepEqual(await missingOf(store, { minHosts: 1, peers: [] }), []);
  await come('h3', '192.0.2.3');
  await vote('h3', 'voter');
  await come('h2', '192.0.2.2');
  await vote('h2', 'learner');
  assert.deepEqual(await missingOf(store, named), ['1 more member of the store']);
  await vote('h2', 'voter');
  assert.deepEqual(await missingOf(store, named), []);
});

test('what to type elsewhere has the token, and who is waited for', () => {
  assert.match(joinText('abc', ['192.0.2.2']), /waits for 192\.0\.2\.2[\s\S]*join abc/);
});
