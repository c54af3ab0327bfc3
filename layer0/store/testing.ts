/** Stores for the tests of other packages. */
import { createMemoryStore } from './memory.ts';
import type { MemoryStore } from './memory.ts';

/** A fresh, empty store in memory; `await using store = openTestStore()` closes it. It passes the same suite as etcd's. */
export function openTestStore(options: { now?: () => number } = {}): MemoryStore {
  return createMemoryStore(options);
}
