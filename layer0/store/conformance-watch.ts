/** The watches' part of the conformance suite: exactly once, in order, in whole transactions, through disconnects. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withDeadline } from '@flynn/kit/retry';
import { put } from './conformance.ts';
import type { OpenStore } from './conformance.ts';
import { CompactedError } from './store.ts';
import type { Change, ChangeBatch, Revision, Store } from './store.ts';

function revisionOf(change: Change): Revision {
  return change.type === 'put' ? change.entry.modRevision : change.modRevision;
}

/** Reads batches until they hold so many changes; fails if it takes too long. `onBatch` sees each as it comes. */
async function readChanges(
  store: Store,
  options: { prefix: string; after: Revision; count: number; onBatch?: (batch: ChangeBatch) => Promise<void> },
): Promise<{ changes: Change[]; batches: ChangeBatch[] }> {
  const signal = withDeadline(60_000);
  const changes: Change[] = [];
  const batches: ChangeBatch[] = [];
  for await (const batch of store.watch(options.prefix, { after: options.after, signal })) {
    batches.push(batch);
    changes.push(...batch.changes);
    await options.onBatch?.(batch);
    if (changes.length >= options.count) return { changes, batches };
  }
  throw new Error(`only ${changes.length} of ${options.count} changes came`);
}

export function checkWatches(open: OpenStore): void {
  test('a watch delivers what came after a revision, in order, and only its prefix', async () => {
    await using opened = await open();
    const { store } = opened;
    const start = await put(store, '/w/a', '0');
    await put(store, '/w/a', '1');
    await put(store, '/other', 'x');
    await store.transact({ then: [{ delete: '/w/a' }] });
    await put(store, '/w/b', '2');
    const { changes } = await readChanges(store, { prefix: '/w/', after: start, count: 3 });
    assert.deepEqual(
      changes.map((change) => [
        change.type,
        change.type === 'put' ? change.entry.value : change.key,
        revisionOf(change),
      ]),
      [
        ['put', '1', start + 1],
        ['delete', '/w/a', start + 3],
        ['put', '2', start + 4],
      ],
    );
  });

  test('a watch delivers live changes, and a transaction in one batch', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    const start = await put(store, '/w/a', '0');
    const reading = readChanges(store, {
      prefix: '/w/',
      after: start - 1,
      count: 101,
      onBatch: async (batch) => {
        if (batch.changes.length !== 1) return;
        const keys = Array.from({ length: 100 }, (_, i) => `/w/${i}`);
        await peer.transact({ then: keys.map((key) => ({ put: key, value: 'x'.repeat(1000) })) });
      },
    });
    const { batches } = await reading;
    const filled = batches.filter((batch) => batch.changes.length > 0);
    assert.deepEqual(
      filled.map((batch) => batch.changes.length),
      [1, 100],
    );
    assert.equal(filled[1]?.revision, start + 1);
  });

  test('a batch and its changes are frozen', async () => {
    await using opened = await open();
    const start = await put(opened.store, '/w/a', '0');
    const { batches } = await readChanges(opened.store, { prefix: '/w/', after: start - 1, count: 1 });
    const change = batches[0]?.changes[0];
    assert.ok(change?.type === 'put');
    for (const value of [batches[0], batches[0]?.changes, change, change.entry]) assert.ok(Object.isFrozen(value));
  });

  test('a watch ends silently when its signal aborts', async () => {
    await using opened = await open();
    const abort = new AbortController();
    const batches: ChangeBatch[] = [];
    const start = await put(opened.store, '/w/a', '0');
    for await (const batch of opened.store.watch('/w/', { after: start - 1, signal: abort.signal })) {
      batches.push(batch);
      abort.abort();
    }
    assert.equal(batches.length, 1);
  });

  test('no event is lost or repeated over disconnects while a watch catches up', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    const start = await put(peer, '/w/start', '0');
    const total = 6000;
    for (let i = 0; i < total; i += 200) {
      await Promise.all(Array.from({ length: 200 }, (_, j) => put(peer, `/w/${i + j}`, `${i + j}`.padEnd(200, '.'))));
    }
    let cuts = 0;
    const seen = { count: 0 };
    const { changes } = await readChanges(store, {
      prefix: '/w/',
      after: start,
      count: total + 3,
      onBatch: async (batch) => {
        seen.count += batch.changes.length;
        if (cuts >= 3 || seen.count >= total) return;
        cuts += 1;
        const reconnect = await opened.disconnect();
        await put(peer, `/w/during-cut-${cuts}`, 'x');
        await reconnect();
      },
    });
    assert.equal(cuts, 3);
    const revisions = changes.map(revisionOf);
    // One change per revision: exactly the numbers from start + 1, each once.
    assert.deepEqual(
      revisions,
      Array.from({ length: total + 3 }, (_, i) => start + 1 + i),
    );
  });

  test('a quiet watch goes on after a disconnect', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    const start = await put(peer, '/w/a', '0');
    const { changes } = await readChanges(store, {
      prefix: '/w/',
      after: start - 1,
      count: 2,
      onBatch: async (batch) => {
        if (batch.changes.length === 0 || batch.revision > start) return;
        const reconnect = await opened.disconnect();
        await reconnect();
        await put(peer, '/w/b', '1');
      },
    });
    assert.deepEqual(changes.map(revisionOf), [start, start + 1]);
  });

  test('a compaction during a disconnect ends the watch with CompactedError', async () => {
    await using opened = await open();
    const { store, peer } = opened;
    const start = await put(peer, '/w/a', '0');
    const reading = readChanges(store, {
      prefix: '/w/',
      after: start - 1,
      count: 100,
      onBatch: async (batch) => {
        if (batch.changes.length === 0 || batch.revision > start) return;
        const reconnect = await opened.disconnect();
        for (let i = 0; i < 5; i += 1) await put(peer, '/w/a', String(i));
        await peer.compact(await put(peer, '/w/a', 'last'));
        await reconnect();
      },
    });
    await assert.rejects(reading, CompactedError);
  });

  test('a watch from before a compaction is refused with CompactedError', async () => {
    await using opened = await open();
    const { store } = opened;
    const start = await put(store, '/w/a', '0');
    for (let i = 0; i < 5; i += 1) await put(store, '/w/a', String(i));
    await store.compact(await put(store, '/w/a', 'last'));
    await assert.rejects(readChanges(store, { prefix: '/w/', after: start, count: 1 }), CompactedError);
  });
}
