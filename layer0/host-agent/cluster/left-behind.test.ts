import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configSchema } from '../config.ts';
import { type Word, isLeftBehind, mayMemberStart, storePatienceOf, verdictOf } from './left-behind.ts';
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
  const asking = { runs, log, absenceMs: 0, signal, addresses };
  assert.equal(await mayMemberStart(config, asking), 'start');
  assert.match(warnings.join(), /"http:\/\/127\.0\.0\.1:9: [^"]+","http:\/\/127\.0\.0\.2:9: [^"]+"/);
  assert.equal(await mayMemberStart({ ...config, FLYNN_ETCD_CA_FILE: '/nonexistent/ca' }, asking), 'start');
  assert.match(warnings.join(), /could not be asked/);
});

test('who was left behind is told by any that has a store; what is not up yet is asked again, for a while', () => {
  const told = (words: Word[], withSilence = true, withStores = false) => verdictOf(words, { withSilence, withStores });
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
});

test('a host waits for stores only where one may have been made anew without it, and never one that has its own alone', () => {
  assert.equal(storePatienceOf({ absenceMs: 20_000, isAlone: false }), 0, 'a power cut of all');
  assert.equal(storePatienceOf({ absenceMs: 120_000, isAlone: false }), 10_000);
  assert.equal(storePatienceOf({ absenceMs: Infinity, isAlone: false }), 10_000);
  assert.equal(storePatienceOf({ absenceMs: Infinity, isAlone: true }), 0);
});
