import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { put, storeConformance } from './conformance.ts';
import { openProxied } from './etcd-fixture.ts';
import { startEtcdMember } from './etcd-member.ts';
import type { EtcdMember } from './etcd-member.ts';
import { defragmentEtcd, etcdStatus } from './etcd-status.ts';
import { connectEtcd } from './etcd.ts';
import { openMirror } from './mirror.ts';
import { startTcpProxy } from './tcp-proxy.ts';

const log = silentLogger();
const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const run = image === undefined ? {} : { image };
let member: EtcdMember;

before(async () => {
  member = await startEtcdMember(run);
});
after(() => member.stop());

function open(options: { timeoutMs?: number } = {}) {
  return openProxied({ endpoints: [member.endpoint], ...options });
}

storeConformance('the etcd store', () => open(), { leaseTtlSeconds: 6 });

test('a call to a frozen member ends at its deadline, not at a multiple of it', async () => {
  await using opened = await open({ timeoutMs: 5_000 });
  await opened.store.get('/x');
  opened.proxies.forEach((proxy) => proxy.freeze());
  // Timers come in their order, on a machine that has stood still as well.
  let isLate = false;
  const late = setTimeout(() => (isLate = true), 10_000);
  await assert.rejects(opened.store.get('/x'), (error) => hasCode(error, 'timeout'));
  clearTimeout(late);
  assert.equal(isLate, false);
});

test('a store survives the restart of its only member, and keeps what it held', async () => {
  await using second = await startEtcdMember(run);
  await using store = connectEtcd({ endpoints: [second.endpoint], log });
  await put(store, '/kept', '1');
  await second.kill();
  await assert.rejects(put(store, '/a', '2'), (error) => hasCode(error, 'unavailable', 'timeout'));
  await second.start();
  await waitFor(async () => (await put(store, '/a', '3')) > 0, { what: 'the restarted etcd', deadlineMs: 60_000 });
  assert.equal((await store.get('/kept'))?.value, '1');
});

test('of several endpoints one that answers is enough', async () => {
  await using dead = await startTcpProxy(member.port);
  dead.cut();
  await using store = connectEtcd({ endpoints: [`http://127.0.0.1:${dead.port}`, member.endpoint], log });
  for (let i = 0; i < 20; i += 1) await put(store, '/several', String(i));
  assert.equal((await store.get('/several'))?.value, '19');
});

test('a mirror over etcd equals a listing after cuts and a compaction', async () => {
  await using opened = await open();
  const { store, peer } = opened;
  await put(peer, '/m/0', '0');
  await using mirror = await openMirror({ store, prefix: '/m/', decode: (json) => json, log });
  let last = 0;
  for (let round = 0; round < 5; round += 1) {
    const reconnect = await opened.disconnect();
    for (let i = 0; i < 100; i += 1) last = await put(peer, `/m/${(i * 7 + round) % 60}`, String(round * 1000 + i));
    await peer.transact({ then: [{ delete: `/m/${round}` }] });
    if (round % 2 === 0) await peer.compact(last);
    await reconnect();
  }
  const { entries, revision } = await peer.list('/m/');
  const snapshot = await mirror.reached(revision, { deadlineMs: 60_000 });
  assert.deepEqual(
    new Map([...snapshot.entries].map(([key, { value, modRevision }]) => [key, { value, modRevision }])),
    new Map(entries.map((e) => [e.key.slice(3), { value: JSON.parse(e.value), modRevision: e.modRevision }])),
  );
  assert.equal(mirror.driftCount, 0);
});

test('a mirror over etcd reaches a revision that is about another prefix', async () => {
  await using opened = await open();
  await using mirror = await openMirror({ store: opened.store, prefix: '/m/', decode: (json) => json, log });
  const elsewhere = await put(opened.peer, '/elsewhere', '1');
  assert.ok((await mirror.reached(elsewhere)).revision >= elsewhere);
});

test('a member without room says so by itself, and takes writes again once it was defragmented', async () => {
  await using full = await startEtcdMember({ ...run, quotaBytes: 8 * 1024 ** 2 });
  await using store = connectEtcd({ endpoints: [full.endpoint], log });
  const ask = () => etcdStatus({ endpoints: [full.endpoint], signal: AbortSignal.timeout(20_000) });
  const large = 'x'.repeat(1024 ** 2);
  let revision = 0;
  await assert.rejects(async () => {
    for (let at = 0; at < 64; at += 1) {
      ({ revision } = await store.transact({ then: [{ put: '/large', value: large }] }));
    }
  }, /space exceeded/);
  const before = await ask();
  assert.deepEqual(
    before.alarms.map(({ kind, memberId }) => ({ kind, memberId })),
    [{ kind: 'nospace', memberId: before.members[0]?.answer?.id }],
  );
  const answer = before.members[0]?.answer;
  assert.ok(
    answer !== undefined && answer.leaderId === answer.id && answer.sizeBytes > 6 * 1024 ** 2,
    JSON.stringify(answer),
  );
  await store.compact(revision);
  const asked: string[] = [];
  const options = { endpoints: [full.endpoint], signal: AbortSignal.timeout(60_000) };
  assert.deepEqual(await defragmentEtcd({ ...options, onMember: (one) => asked.push(one) }), {
    disarmed: 1,
    failures: [],
  });
  assert.deepEqual(asked, [full.endpoint]);
  await put(store, '/small', '1');
  const after = await ask();
  assert.deepEqual(after.alarms, []);
  assert.ok((after.members[0]?.answer?.sizeBytes ?? Infinity) < answer.sizeBytes);
});

test('a member that does not answer is told as such by the deadline', async () => {
  await using proxy = await startTcpProxy(member.port);
  proxy.freeze();
  const endpoint = `http://127.0.0.1:${proxy.port}`;
  const { members } = await etcdStatus({ endpoints: [endpoint, member.endpoint], signal: AbortSignal.timeout(15_000) });
  assert.deepEqual(
    members.map(({ error, answer }) => [error, answer !== undefined]),
    [
      ['it did not answer in time', false],
      [undefined, true],
    ],
  );
});
