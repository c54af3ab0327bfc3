/** Keyspaces in the store: where each lies, and how one goes. */
import type { Store } from '@flynn/store/store';

/** Of the door on each host's gateway address. */
export const keyspacePort = 1116;

/** With the slash that ends it: the keys of `a` are none of `ab`. */
export const keyspacePrefix = (name: string): string => `/flynn/keyspaces/${name}/`;

/**
 * Removes all keys of a keyspace; one that has none is fine. The jobs that have it are to be gone: they would write others.
 * Errors are the store's.
 */
export async function removeKeyspace(store: Store, name: string, { signal }: { signal: AbortSignal }): Promise<void> {
  await store.transact({ then: [{ deletePrefix: keyspacePrefix(name) }] }, { signal });
}
