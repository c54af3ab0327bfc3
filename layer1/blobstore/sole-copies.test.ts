import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Lack, Replication, StoreStatus } from './api.ts';
import { soleCopies } from './sole-copies.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const lacking = (count: number): Lack => ({ count, bytes: count, since: 1, digests: [digest] });
const none: Lack = { count: 0, bytes: 0, digests: [] };
const whole = { comparedAt: 1 };

/** Without a status it does not answer. */
function store(host: string, status?: Partial<StoreStatus>): Replication['stores'][number] {
  return status === undefined
    ? { host, problem: 'away' }
    : { host, status: { missing: none, damaged: none, ...status } };
}

test('a host is free to go once one other store has everything', () => {
  const leaving = store('h1', whole);
  const alone = (...others: ReturnType<typeof store>[]) => soleCopies({ stores: [leaving, ...others] }, 'h1');
  assert.equal(alone(store('h2', whole)), undefined);
  assert.equal(alone(store('h2', { ...whole, missing: lacking(3) }), store('h3', whole)), undefined);
  assert.equal(alone(store('h2', { ...whole, missing: lacking(3) }), store('h3', { missing: lacking(2) }))?.count, 2);
});

test('what nobody could compare yet is not taken for nothing', () => {
  const stores = (...others: ReturnType<typeof store>[]) => ({ stores: [store('h1', whole), ...others] });
  assert.equal(soleCopies(stores(), 'h1')?.count, 0);
  assert.equal(soleCopies(stores(store('h2')), 'h1')?.count, 0);
  assert.equal(soleCopies(stores(store('h2', {})), 'h1')?.count, 0);
});

test('a host without a store, or one whose blobs are in a bucket, takes none with it', () => {
  assert.equal(soleCopies({ stores: [store('h2', { ...whole, missing: lacking(1) })] }, 'h1'), undefined);
  assert.equal(soleCopies({ stores: [store('h1', { ...whole, place: 's3://b/' })] }, 'h1'), undefined);
});
