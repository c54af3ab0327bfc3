/** What every driver has to do when a backup is put in place of the store: nobody goes on with what is void. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { put } from './conformance.ts';
import type { OpenedStore } from './conformance.ts';
import { openMirror } from './mirror.ts';
import type { Snapshot } from './mirror.ts';
import { RestoredError } from './store.ts';
import type { Store } from './store.ts';

export interface RestorableStore extends OpenedStore {
  /** Saves the store as it is. The returned function puts that in its place, for all clients, revisions included. */
  backUp: () => Promise<() => Promise<void>>;
}

/** Registers the suite with node:test. `leaseTtlSeconds`: longer than a restore takes. */
export function restoreConformance(
  name: string,
  open: () => Promise<RestorableStore>,
  options: { leaseTtlSeconds: number },
): void {
  describe(`${name} keeps the Store contract when it is restored`, () => {
    test('it holds exactly what was saved, at the revision it was saved at', async () => {
      await using opened = await open();
      const { store } = opened;
      await put(store, '/r/stays', '1');
      await put(store, '/r/changes', 'before');
      await put(store, '/r/goes', '1');
      const saved = await store.list('/');
      const restore = await opened.backUp();
      await put(store, '/r/changes', 'after');
      await store.transact({ then: [{ delete: '/r/goes' }, { put: '/r/comes', value: '1' }] });
      await restore();
      assert.deepEqual(await untilListed(store), saved);
    });

    test('a watch from before ends with RestoredError, and one from a fresh listing goes on', async () => {
      await using opened = await open();
      const { store, peer } = opened;
      const start = await put(store, '/r/a', '0');
      const restore = await opened.backUp();
      const last = await put(store, '/r/a', '1');
      const following = followUntilEnd(store, start);
      await restore();
      assert.ok((await following.end) instanceof RestoredError);
      const { revision } = await untilListed(store);
      assert.ok(revision < last);
      const again = await put(peer, '/r/b', '1');
      for await (const batch of store.watch('/r/', { after: revision, signal: withDeadline(60_000) })) {
        if (batch.changes.length === 0) continue;
        assert.equal(batch.revision, again);
        break;
      }
    });

    test('a watch notices a restore though the store has moved past what the watch knew', async () => {
      await using opened = await open();
      const { store, peer } = opened;
      const start = await put(store, '/r/a', '0');
      const restore = await opened.backUp();
      const known = await put(store, '/r/a', '1');
      const following = followUntilEnd(store, start, known);
      await following.known;
      const reconnect = await opened.disconnect();
      await restore();
      await untilListed(peer);
      let revision = 0;
      while (revision <= known + 5) revision = await put(peer, '/r/other', String(revision));
      await reconnect();
      assert.ok((await following.end) instanceof RestoredError);
    });

    test('a lease of the backup lives on if its holder is there, and a younger one is lost', async () => {
      await using opened = await open();
      const { store } = opened;
      const ttlSeconds = options.leaseTtlSeconds;
      const putLeased = async (key: string) => {
        const lease = await store.grantLease({ ttlSeconds });
        await store.transact({ then: [{ put: key, value: '', lease: lease.id }] });
        return lease;
      };
      await using held = await putLeased('/r/held');
      const revoked = await putLeased('/r/revoked');
      const restore = await opened.backUp();
      await revoked.revoke();
      await using younger = await putLeased('/r/younger');
      await restore();
      await waitFor(() => younger.lost.aborted, { what: 'the loss of the lease', deadlineMs: 60_000 });
      const left = await waitFor(
        async () => {
          const { entries } = await store.list('/r/');
          return entries.length === 1 && entries;
        },
        { what: 'the end of the revoked lease', deadlineMs: 120_000 },
      );
      assert.deepEqual(
        left.map((entry) => [entry.key, entry.lease]),
        [['/r/held', held.id]],
      );
      assert.equal(held.lost.aborted, false);
    });

    test('a mirror holds exactly what was restored, and follows on', async () => {
      await using opened = await open();
      const { store, peer } = opened;
      await put(store, '/r/same', '1');
      await put(store, '/r/back', '1');
      await using mirror = await openMirror({ store, prefix: '/r/', decode: (json) => json, log: silentLogger() });
      const restore = await opened.backUp();
      const older = mirror.snapshot;
      await peer.transact({ then: [{ delete: '/r/back' }, { put: '/r/void', value: '1' }] });
      await mirror.reached(await put(peer, '/r/same', '2'));
      const told: string[] = [];
      mirror.onChange(({ key, after }) => told.push(`${key}=${after === undefined ? 'gone' : JSON.stringify(after)}`));
      await restore();
      const saved = await untilListed(peer);
      await waitFor(() => mirror.snapshot.revision === saved.revision, {
        what: 'the mirror to start over',
        deadlineMs: 60_000,
      });
      assert.deepEqual(contentOf(mirror.snapshot), { same: 1, back: 1 });
      assert.deepEqual(told.sort(), ['back=1', 'same=1', 'void=gone']);
      await mirror.reached(await put(peer, '/r/next', '3'));
      assert.deepEqual(contentOf(mirror.snapshot), { same: 1, back: 1, next: 3 });
      assert.deepEqual(contentOf(older), { same: 1, back: 1 });
      assert.equal(mirror.driftCount, 0);
    });
  });
}

/** Reads a watch to its end: `end` is what it threw. `known` resolves when it has delivered a revision. */
function followUntilEnd(store: Store, after: number, until = 0): { end: Promise<unknown>; known: Promise<void> } {
  const known = Promise.withResolvers<void>();
  const reading = (async () => {
    for await (const batch of store.watch('/r/', { after, signal: withDeadline(120_000) })) {
      if (batch.revision >= until) known.resolve();
    }
  })();
  const end = reading.then(
    () => undefined,
    (error: unknown) => error,
  );
  return { end, known: known.promise };
}

/** A store that is being replaced is away for a moment. */
async function untilListed(store: Store) {
  return await waitFor(() => store.list('/'), { what: 'the restored store', deadlineMs: 60_000 });
}

function contentOf(snapshot: Snapshot<unknown>): Record<string, unknown> {
  return Object.fromEntries([...snapshot.entries].map(([key, { value }]) => [key, value]));
}
