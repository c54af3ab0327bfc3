/** Everything under a prefix as it was at a revision, some of it at a time: the memory for it does not grow with it. */
import type { Entry, Revision, Store } from '@flynn/store/store';

const pageEntries = 100;

/** In the order of keys. `conflict` once the revision was compacted. */
export async function* entriesAt(
  store: Store,
  prefix: string,
  { revision, signal }: { revision: Revision; signal: AbortSignal },
): AsyncGenerator<Entry> {
  for (let after: string | undefined; ;) {
    const page = after === undefined ? {} : { after };
    const { entries } = await store.list(prefix, { revision, first: pageEntries, ...page, signal });
    yield* entries;
    after = entries.at(-1)?.key;
    if (entries.length < pageEntries || after === undefined) return;
  }
}
