/** What every driver of the Store port has to pass. A driver's own test calls it in a few lines. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { checkLeases } from './conformance-lease.ts';
import { checkWatches } from './conformance-watch.ts';
import { CompactedError } from './store.ts';
import type { Entry, Store } from './store.ts';

export interface OpenedStore extends AsyncDisposable {
  /** An empty store. */
  store: Store;
  /** A second client of the same data, through another member if there are several, which `disconnect` leaves alone. */
  peer: Store;
  /** Cuts every connection of `store` and lets none through until the returned function is called. */
  disconnect: () => Promise<() => Promise<void>>;
}

export type OpenStore = () => Promise<OpenedStore>;

/** Registers the suite with node:test. `leaseTtlSeconds`: as short as can be, but longer than anything may stand still. */
export function storeConformance(name: string, open: OpenStore, options: { leaseTtlSeconds: number }): void {
  describe(`${name} keeps the Store contract`, () => {
    checkReads(open);
    checkTransactions(open);
    checkDeadlines(open);
    checkWatches(open);
    checkLeases(open, options.leaseTtlSeconds);
  });
}

export async function put(store: Store, key: string, value: string): Promise<number> {
  return (await store.transact({ then: [{ put: key, value }] })).revision;
}

function keysOf(entries: readonly Entry[]): string[] {
  return entries.map((entry) => entry.key);
}

function checkReads(open: OpenStore): void {
  test('a missing key reads as undefined', async () => {
    await using opened = await open();
    assert.equal(await opened.store.get('/nothing'), undefined);
  });

  test('an entry carries the revisions of its creation and of its last change', async () => {
    await using opened = await open();
    const { store } = opened;
    const created = await put(store, '/a', 'one');
    const changed = await put(store, '/a', 'zwei ü 𝄞');
    assert.deepEqual(await store.get('/a'), {
      key: '/a',
      value: 'zwei ü 𝄞',
      createRevision: created,
      modRevision: changed,
    });
    assert.equal(changed, created + 1);
  });

  test('what one client has written the other reads at once', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    for (let i = 0; i < 25; i += 1) {
      const revision = await put(store, '/own', `${i}`);
      const [entry, listing] = await Promise.all([peer.get('/own'), peer.list('/own')]);
      assert.deepEqual([entry?.value, entry?.modRevision], [`${i}`, revision]);
      assert.deepEqual(listing.entries, [entry]);
      await put(peer, '/own', `peer ${i}`);
      assert.equal((await store.get('/own'))?.value, `peer ${i}`);
    }
  });

  test('a listing holds exactly the prefix, sorted by key', async () => {
    await using opened = await open();
    const { store } = opened;
    for (const key of ['/p/b', '/p/a', '/p0', '/q', '/p', '/p/a/x']) await put(store, key, key);
    assert.deepEqual(keysOf((await store.list('/p/')).entries), ['/p/a', '/p/a/x', '/p/b']);
    assert.deepEqual(keysOf((await store.list('/p')).entries), ['/p', '/p/a', '/p/a/x', '/p/b', '/p0']);
    assert.equal((await store.list('')).entries.length, 6);
  });

  test('the newest of a listing are its last ones by key, also below a key', async () => {
    await using opened = await open();
    const { store } = opened;
    for (const key of ['/n/c', '/n/a', '/n/e', '/n/b', '/n/d', '/n0', '/m']) await put(store, key, 'x');
    const newest = async (count: number, before?: string) =>
      keysOf((await store.list('/n/', { newest: count, ...(before === undefined ? {} : { before }) })).entries);
    assert.deepEqual(await newest(2), ['/n/d', '/n/e']);
    assert.deepEqual(await newest(2, '/n/d'), ['/n/b', '/n/c']);
    assert.deepEqual(await newest(9), ['/n/a', '/n/b', '/n/c', '/n/d', '/n/e']);
    assert.deepEqual(await newest(2, '/n/a'), []);
  });

  test('the first of a listing come page by page, all of one revision', async () => {
    await using opened = await open();
    const { store } = opened;
    for (const key of ['/f/c', '/f/a', '/f/b/x', '/f/d', '/f/b', '/f0', '/e']) await put(store, key, 'x');
    const { revision } = await store.list('/f/', { first: 1 });
    await put(store, '/f/aa', 'later');
    const first = async (count: number, after?: string) =>
      keysOf((await store.list('/f/', { first: count, revision, ...(after === undefined ? {} : { after }) })).entries);
    assert.deepEqual(await first(2), ['/f/a', '/f/b']);
    assert.deepEqual(await first(2, '/f/b'), ['/f/b/x', '/f/c']);
    assert.deepEqual(await first(9, '/f/b/x'), ['/f/c', '/f/d']);
    assert.deepEqual(await first(2, '/f/d'), []);
  });

  test('a listing of keys alone has revisions and no values, at a past revision too', async () => {
    await using opened = await open();
    const { store } = opened;
    const first = await put(store, '/k/a', '1');
    const then = await put(store, '/k/b', '1');
    await put(store, '/k/a', '2');
    const { entries, revision } = await store.list('/k/', { revision: then, isKeysOnly: true });
    assert.deepEqual(
      entries.map(({ key, value, modRevision }) => [key, value, modRevision]),
      [
        ['/k/a', '', first],
        ['/k/b', '', then],
      ],
    );
    assert.equal(revision, then);
  });

  test('a listing at a past revision shows the state of that time', async () => {
    await using opened = await open();
    const { store } = opened;
    await put(store, '/l/a', '1');
    const then = await put(store, '/l/b', '1');
    await put(store, '/l/a', '2');
    await store.transact({ then: [{ delete: '/l/b' }] });
    await put(store, '/l/c', '1');
    const past = await store.list('/l/', { revision: then });
    assert.deepEqual(
      past.entries.map(({ key, value }) => [key, value]),
      [
        ['/l/a', '1'],
        ['/l/b', '1'],
      ],
    );
    assert.equal(past.revision, then);
  });

  test('a listing of thousands of entries is complete and of one revision', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    const many = Array.from({ length: 2500 }, (_, i) => `/many/${String(i).padStart(5, '0')}`);
    for (let i = 0; i < many.length; i += 100) {
      await store.transact({ then: many.slice(i, i + 100).map((key) => ({ put: key, value: 'x' })) });
    }
    const [listing] = await Promise.all([
      store.list('/many/'),
      peer.transact({ then: [{ delete: '/many/00000' }, { delete: '/many/02499' }] }),
    ]);
    const keys = keysOf(listing.entries);
    // Either both are there or neither: they went in one transaction.
    assert.ok(keys.length === 2500 || keys.length === 2498, `got ${keys.length}`);
    assert.deepEqual(keys, keys.length === 2500 ? many : many.slice(1, -1));
  });

  test('a listing behind a compaction is refused with CompactedError', async () => {
    await using opened = await open();
    const { store } = opened;
    const first = await put(store, '/c', '1');
    await put(store, '/c', '2');
    const last = await put(store, '/c', '3');
    await store.compact(last);
    await assert.rejects(store.list('/c', { revision: first }), CompactedError);
    assert.equal((await store.list('/c', { revision: last })).entries[0]?.value, '3');
    await store.compact(first);
  });

  test('a revision from the future is invalid', async () => {
    await using opened = await open();
    await assert.rejects(opened.store.list('/x', { revision: 1_000_000 }), (e) => hasCode(e, 'invalid'));
  });

  test('what the store hands out is frozen', async () => {
    await using opened = await open();
    const { store } = opened;
    const result = await store.transact({ then: [{ put: '/f', value: '1' }, { get: '/f' }] });
    const listing = await store.list('/f');
    const entry = await store.get('/f');
    const handed = [
      result,
      result.reads,
      result.reads[0],
      result.reads[0]?.[0],
      listing,
      listing.entries,
      listing.entries[0],
      entry,
    ];
    for (const value of handed) assert.ok(value !== undefined && Object.isFrozen(value));
  });
}

function checkTransactions(open: OpenStore): void {
  test('a transaction over several keys is one revision', async () => {
    await using opened = await open();
    const { store } = opened;
    await put(store, '/t/old', 'x');
    const result = await store.transact({
      then: [{ put: '/t/a', value: '1' }, { put: '/t/b', value: '2' }, { delete: '/t/old' }, { list: '/t/' }],
    });
    assert.equal(result.succeeded, true);
    const { entries, revision } = await store.list('/t/');
    assert.equal(revision, result.revision);
    assert.deepEqual(
      entries.map((entry) => [entry.key, entry.modRevision]),
      [
        ['/t/a', result.revision],
        ['/t/b', result.revision],
      ],
    );
    assert.deepEqual(result.reads, [entries]);
  });

  test('when one compare fails nothing is written, and the else branch reads', async () => {
    await using opened = await open();
    const { store } = opened;
    const revision = await put(store, '/t/a', '1');
    const result = await store.transact({
      compare: [
        { key: '/t/a', modRevision: revision },
        { key: '/t/b', modRevision: revision },
      ],
      then: [{ put: '/t/a', value: '2' }],
      else: [{ get: '/t/b' }, { get: '/t/a' }],
    });
    assert.equal(result.succeeded, false);
    assert.equal(result.revision, revision);
    assert.deepEqual(
      result.reads.map((read) => keysOf(read)),
      [[], ['/t/a']],
    );
    assert.equal((await store.get('/t/a'))?.value, '1');
  });

  test('comparing with revision 0 means that there is no entry', async () => {
    await using opened = await open();
    const { store } = opened;
    const create = (key: string) =>
      store.transact({
        compare: [
          { key, modRevision: 0 },
          { key, createRevision: 0 },
        ],
        then: [{ put: key, value: '' }],
      });
    assert.equal((await create('/n')).succeeded, true);
    assert.equal((await create('/n')).succeeded, false);
    await store.transact({ then: [{ delete: '/n' }] });
    assert.equal((await create('/n')).succeeded, true);
  });

  test('the createRevision outlives changes but not a deletion', async () => {
    await using opened = await open();
    const { store } = opened;
    const created = await put(store, '/e', '1');
    await put(store, '/e', '2');
    const touch = () =>
      store.transact({ compare: [{ key: '/e', createRevision: created }], then: [{ put: '/e', value: '3' }] });
    assert.equal((await touch()).succeeded, true);
    await store.transact({ then: [{ delete: '/e' }] });
    await put(store, '/e', '4');
    assert.equal((await touch()).succeeded, false);
  });

  test('deleting a prefix takes exactly the keys under it', async () => {
    await using opened = await open();
    const { store } = opened;
    for (const key of ['/d/1', '/d/2', '/d0']) await put(store, key, '');
    await store.transact({ then: [{ deletePrefix: '/d/' }] });
    assert.deepEqual(keysOf((await store.list('/d')).entries), ['/d0']);
  });

  test('a transaction that changes nothing raises no revision', async () => {
    await using opened = await open();
    const { store } = opened;
    const before = await put(store, '/r', '');
    const result = await store.transact({ then: [{ delete: '/none' }, { deletePrefix: '/none' }, { get: '/r' }] });
    assert.equal(result.revision, before);
  });

  test('of concurrent transactions on one revision exactly one wins', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    const revision = await put(store, '/race', 'start');
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        (i % 2 === 0 ? store : peer).transact({
          compare: [{ key: '/race', modRevision: revision }],
          then: [{ put: '/race', value: String(i) }],
        }),
      ),
    );
    assert.equal(results.filter((result) => result.succeeded).length, 1);
  });

  test('writing one key twice, a value over 1 MiB and a writing else branch are invalid', async () => {
    await using opened = await open();
    const { store } = opened;
    const isInvalid = (error: unknown) => hasCode(error, 'invalid');
    await assert.rejects(
      store.transact({
        then: [
          { put: '/a', value: '' },
          { put: '/a', value: '' },
        ],
      }),
      isInvalid,
    );
    await assert.rejects(store.transact({ then: [{ put: '/a', value: '' }, { deletePrefix: '/' }] }), isInvalid);
    await assert.rejects(put(store, '/big', 'x'.repeat(1024 * 1024 + 1)), isInvalid);
    await assert.rejects(store.transact({ then: [], else: [{ put: '/a', value: '' }] }), isInvalid);
    await put(store, '/big', 'x'.repeat(1024 * 1024));
    assert.equal((await store.list('/')).entries.length, 1);
  });
}

function checkDeadlines(open: OpenStore): void {
  test('a call on a cut connection ends with unavailable or timeout, and works again later', async () => {
    await using opened = await open();
    const { store } = opened;
    await put(store, '/cut', '1');
    const reconnect = await opened.disconnect();
    await assert.rejects(store.get('/cut'), (error) => hasCode(error, 'unavailable', 'timeout'));
    await reconnect();
    await waitFor(async () => (await store.get('/cut'))?.value === '1', { what: 'the store', deadlineMs: 60_000 });
  });

  test('an aborted call ends with cancelled', async () => {
    await using opened = await open();
    const reconnect = await opened.disconnect();
    await assert.rejects(opened.store.get('/x', { signal: AbortSignal.abort() }), (error) =>
      hasCode(error, 'cancelled'),
    );
    await reconnect();
  });

  test('a closed store refuses calls with cancelled', async () => {
    await using opened = await open();
    await opened.store.close();
    await assert.rejects(opened.store.get('/x'), (error) => hasCode(error, 'cancelled'));
  });
}
