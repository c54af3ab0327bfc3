/** Which blobs would go with a host's store, because no other store has all of them? Pure. */
import type { Lack, Replication } from './api.ts';

const unknown: Lack = { count: 0, bytes: 0, digests: [] };

/**
 * Undefined when another store has all, or that host has none. What is put is on two stores when it is answered, so a store
 * that had everything once is enough. A count of 0: it is not known yet what the others have.
 */
export function soleCopies({ stores }: Replication, host: string): Lack | undefined {
  const own = stores.find((store) => store.host === host);
  // In a bucket they outlive every host.
  if (own === undefined || own.status?.place !== undefined) return undefined;
  const others = stores.flatMap((store) => (store.host === host || store.status === undefined ? [] : [store.status]));
  const compared = others.filter(({ comparedAt, missing }) => comparedAt !== undefined || missing.count > 0);
  if (compared.some(({ missing }) => missing.count === 0)) return undefined;
  return compared.map(({ missing }) => missing).toSorted((a, b) => a.count - b.count)[0] ?? unknown;
}
