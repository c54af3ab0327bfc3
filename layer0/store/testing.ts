/** Stores for the tests of other packages. */
import { createMemoryStore } from './memory.ts';
import type { MemoryStore } from './memory.ts';
import type { ChangeBatch, Store } from './store.ts';
import { storeWith } from './store-with.ts';

/** A fresh, empty store in memory; `await using store = openTestStore()` closes it. It passes the same suite as etcd's. */
export function openTestStore(options: { now?: () => number } = {}): MemoryStore {
  return createMemoryStore(options);
}

/** The store, but its watches leave out every change of some keys: what a mirror has to notice. */
export function lossyStore(store: Store, isLost: (key: string) => boolean): Store {
  async function* watch(...args: Parameters<Store['watch']>): AsyncGenerator<ChangeBatch> {
    for await (const batch of store.watch(...args)) {
      yield { ...batch, changes: batch.changes.filter((c) => !isLost(c.type === 'put' ? c.entry.key : c.key)) };
    }
  }
  return storeWith(store, { watch });
}
