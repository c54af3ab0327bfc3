/** Everything under a prefix as it was at a revision, some of it at a time: the memory for it does not grow with it. */
import type { Entry, Revision, Store } from '@flynn/store/store';

const pageEntries = 100;

/** From the last key to the first. `conflict` once the revision was compacted. */
export async function* entriesAt(
  store: Store,
  prefix: string,
  { revision, signal }: { revision: Revision; signal: AbortSignal },
): AsyncGenerator<Entry> {
  for (let before: string | undefined; ;) {
    const page = before === undefined ? {} : { before };
    const { entries } = await store.list(prefix, { revision, newest: pageEntries, ...page, signal });
    yield* entries.toReversed();
    before = entries[0]?.key;
    if (entries.length < pageEntries || before === undefined) return;
  }
}
