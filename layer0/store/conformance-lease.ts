/** The leases' part of the conformance suite. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { OpenStore } from './conformance.ts';

export function checkLeases(open: OpenStore, ttlSeconds: number): void {
  test('revoking a lease deletes what hangs on it, and is not a loss', async () => {
    await using opened = await open();
    const { store } = opened;
    await using lease = await store.grantLease({ ttlSeconds });
    const put = await store.transact({
      then: [
        { put: '/l/a', value: '', lease: lease.id },
        { put: '/l/b', value: '' },
      ],
    });
    assert.equal((await store.get('/l/a'))?.lease, lease.id);
    await lease.revoke();
    const { entries, revision } = await store.list('/l/');
    assert.deepEqual(
      entries.map((entry) => entry.key),
      ['/l/b'],
    );
    assert.equal(revision, put.revision + 1);
    assert.equal(lease.lost.aborted, false);
  });

  test('disposing of a lease deletes what hangs on it', async () => {
    await using opened = await open();
    const { store } = opened;
    {
      await using lease = await store.grantLease({ ttlSeconds });
      await store.transact({ then: [{ put: '/l/a', value: '', lease: lease.id }] });
    }
    assert.equal(await store.get('/l/a'), undefined);
  });

  test('a lease that is kept alive outlives its TTL', async () => {
    await using opened = await open();
    const { store } = opened;
    await using lease = await store.grantLease({ ttlSeconds });
    await store.transact({ then: [{ put: '/l/a', value: '', lease: lease.id }] });
    await systemClock.sleep(lease.ttlSeconds * 1500);
    assert.equal((await store.get('/l/a'))?.lease, lease.id);
    assert.equal(lease.lost.aborted, false);
  });

  test('a lease whose holder is cut off expires: its keys go and lost fires', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    await using lease = await store.grantLease({ ttlSeconds });
    await store.transact({ then: [{ put: '/l/a', value: '', lease: lease.id }] });
    const reconnect = await opened.disconnect();
    await waitFor(() => lease.lost.aborted, {
      what: 'the loss of the lease',
      deadlineMs: lease.ttlSeconds * 1000 + 30_000,
    });
    await waitFor(async () => (await peer.get('/l/a')) === undefined, {
      what: 'the end of the key',
      deadlineMs: 60_000,
    });
    await reconnect();
  });

  test('an entry put again without the lease outlives it', async () => {
    await using opened = await open();
    const { store } = opened;
    await using lease = await store.grantLease({ ttlSeconds });
    await store.transact({ then: [{ put: '/l/a', value: '1', lease: lease.id }] });
    await store.transact({ then: [{ put: '/l/a', value: '2' }] });
    await lease.revoke();
    assert.equal((await store.get('/l/a'))?.value, '2');
  });

  test('an entry put again on another lease is the same entry, outlives the first lease and goes with the second', async () => {
    await using opened = await open();
    const { store } = opened;
    await using first = await store.grantLease({ ttlSeconds });
    await using second = await store.grantLease({ ttlSeconds });
    await store.transact({ then: [{ put: '/l/a', value: '1', lease: first.id }] });
    const before = await store.get('/l/a');
    const compare = [{ key: '/l/a', modRevision: before?.modRevision ?? 0 }];
    await store.transact({ compare, then: [{ put: '/l/a', value: '1', lease: second.id }] });
    await first.revoke();
    const after = await store.get('/l/a');
    assert.equal(after?.lease, second.id);
    assert.equal(after.createRevision, before?.createRevision);
    await second.revoke();
    assert.equal(await store.get('/l/a'), undefined);
  });

  test('putting with a lease that is gone is refused with not_found', async () => {
    await using opened = await open();
    const { store } = opened;
    const lease = await store.grantLease({ ttlSeconds });
    await lease.revoke();
    await assert.rejects(store.transact({ then: [{ put: '/l/a', value: '', lease: lease.id }] }), (error) =>
      hasCode(error, 'not_found'),
    );
    await lease.revoke();
  });
}
