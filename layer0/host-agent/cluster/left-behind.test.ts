import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { cellKeys } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { configSchema } from '../config.ts';
import { type Word, isLeftBehind, mayMemberStart, storePatienceOf, verdictOf, wordOf } from './left-behind.ts';
import { memberKey } from './member-keys.ts';
import type { Member } from './member-keys.ts';

const voter = (index: number, memberId?: string): [string, Member] => [
  `h${index}`,
  { address: `10.0.0.${index}`, state: 'voter', ...(memberId === undefined ? {} : { memberId }) },
];

test('a host that the store of the others has no member of was left behind, or is to become another', () => {
  const of = (...members: [string, Member][]) => isLeftBehind(new Map(members), 'h2', ['etcd-22']);
  assert.equal(of(voter(1), voter(2, '22'), voter(3, '33')), false);
  // What a key says of its data may be of before a recovery that was broken off.
  assert.equal(of(voter(1), voter(2)), false);
  assert.equal(of(voter(1)), true);
  assert.equal(of(), false);
  assert.equal(of(voter(1), ['h2', { address: '10.0.0.2', state: 'joining', memberId: '77' }]), true);
  assert.equal(of(voter(1), ['h2', { address: '10.0.0.2', state: 'joining', memberId: '22' }]), false);
  assert.equal(of(voter(1), ['h2', { address: '10.0.0.2', state: 'lost', memberId: '22' }]), false);
});

test('where nobody answers, as after a power cut of all, it comes back', { timeout: 60_000 }, async () => {
  const config = configSchema.parse({
    FLYNN_HOST_ID: 'h2',
    FLYNN_KEY: 'the-cluster-key',
    FLYNN_ADDRESS: '10.0.0.2',
    FLYNN_STATE_DIR: '/nonexistent',
    FLYNN_ETCD_ENDPOINTS: 'http://127.0.0.1:9,http://127.0.0.2:9',
  });
  const { signal } = new AbortController();
  const warnings: string[] = [];
  const log = { warn: (...said: unknown[]) => void warnings.push(JSON.stringify(said)) };
  const runs = { elsewhere: () => undefined };
  const addresses = async () => new Set(['10.0.0.2']);
  const rivals = { before: async () => undefined, seen: async () => undefined, wasMetLately: () => false };
  const asking = { runs, rivals, log, absenceMs: 0, signal, addresses };
  assert.equal(await mayMemberStart(config, asking), 'start');
  assert.match(warnings.join(), /"http:\/\/127\.0\.0\.1:9: [^"]+","http:\/\/127\.0\.0\.2:9: [^"]+"/);
  assert.equal(await mayMemberStart({ ...config, FLYNN_ETCD_CA_FILE: '/nonexistent/ca' }, asking), 'start');
  assert.match(warnings.join(), /could not be asked/);
  // But where another machine had its place a moment ago, or for certain: then that one may be back.
  const lately = { ...asking, rivals: { ...rivals, wasMetLately: () => true } };
  assert.equal(await mayMemberStart(config, lately), 'taken');
  assert.equal(await mayMemberStart({ ...config, FLYNN_ETCD_CA_FILE: '/nonexistent/ca' }, lately), 'taken');
  const seen = { address: '10.0.0.9', seenAt: 1 };
  const certain = { ...asking, rivals: { ...rivals, before: async () => seen } };
  assert.equal(await mayMemberStart(config, certain), 'aside');
});

test('that a host was left behind is told by the members alone, where the store is too slow for more', async () => {
  await using store = createMemoryStore();
  const put = (key: string, value: string) => store.transact({ then: [{ put: key, value }] });
  await put(memberKey('h1'), JSON.stringify(voter(1)[1]));
  await put(cellKeys.host('h2'), '{}');
  const { signal } = new AbortController();
  const taken: unknown[] = [];
  const asked = {
    isLeftBehind: (members: ReadonlyMap<string, Member>) => isLeftBehind(members, 'h2', []),
    isTaken: async (record: unknown) => taken.push(record) > 0,
  };
  const slow = { list: store.list.bind(store), get: () => Promise.reject(new FlynnError('timeout', 'too slow')) };
  assert.equal(await wordOf(slow, 'h2', asked, signal), 'left behind');
  await put(memberKey('h2'), JSON.stringify(voter(2)[1]));
  await assert.rejects(wordOf(slow, 'h2', asked, signal), { code: 'timeout' });
  // Each has all of the time there is.
  let isAsked = false;
  const both = {
    get: (key: string) => ((isAsked = true), store.get(key)),
    list: async (prefix: string) => (assert.equal(isAsked, true), store.list(prefix)),
  };
  assert.equal(await wordOf(both, 'h2', asked, signal), 'taken');
  assert.equal(taken.length, 1);
});

test('who was left behind is told by any that has a store; what is not up yet is asked again, for a while', () => {
  const told = (words: Word[], withSilence = true, withStores = false, wasTaken = false) =>
    verdictOf(words, { withSilence, withStores, wasTaken });
  assert.equal(told(['silence', 'left behind']), 'left behind');
  assert.equal(told(['silence', 'a member'], true, true), 'start');
  assert.equal(told(['a member', 'taken', 'silence']), 'taken');
  assert.equal(told(['taken', 'left behind']), 'left behind');
  assert.equal(told(['no store', 'no store']), 'start');
  assert.equal(told(['no store', 'no store'], true, true), 'ask again');
  assert.equal(told(['no store', 'no store'], false, true), 'ask again');
  assert.equal(told(['no store', 'a member'], true, true), 'start');
  assert.equal(told(['silence', 'no store']), 'ask again');
  assert.equal(told(['silence', 'no store'], false), 'start', 'it is off');
  assert.equal(told([], true, true), 'start');
  assert.equal(
    told(['no store', 'silence'], false, false, true),
    'taken',
    'one round in which none answers is no word',
  );
  assert.equal(told([], false, false, true), 'taken');
  assert.equal(told(['no store', 'a member'], false, false, true), 'start');
});

test('a host waits for stores only where one may have been made anew without it, and never one that has its own alone', () => {
  assert.equal(storePatienceOf({ absenceMs: 20_000, isAlone: false }), 0, 'a power cut of all');
  assert.equal(storePatienceOf({ absenceMs: 120_000, isAlone: false }), 10_000);
  assert.equal(storePatienceOf({ absenceMs: Infinity, isAlone: false }), 10_000);
  assert.equal(storePatienceOf({ absenceMs: Infinity, isAlone: true }), 0);
});
