import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { configSchema } from '../config.ts';
import { isLeftBehind, verdictOf, wasLeftBehind } from './left-behind.ts';
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
  assert.equal(await wasLeftBehind(config, { log: silentLogger(), signal }), false);
  const log = { warn: (text: unknown) => void warnings.push(String(text)) };
  assert.equal(await wasLeftBehind({ ...config, FLYNN_ETCD_CA_FILE: '/nonexistent/ca' }, { log, signal }), false);
  assert.match(warnings.join(), /could not be asked/);
});

test('who was left behind is told by any that has a store; one that says nothing is asked again, for a while', () => {
  assert.equal(verdictOf(['silence', 'left behind'], true), 'left behind');
  assert.equal(verdictOf(['silence', 'a member'], true), 'start');
  assert.equal(verdictOf(['no store', 'no store'], true), 'start');
  assert.equal(verdictOf(['silence', 'no store'], true), 'ask again');
  assert.equal(verdictOf(['silence', 'no store'], false), 'start', 'it is off');
  assert.equal(verdictOf([], true), 'start');
});
