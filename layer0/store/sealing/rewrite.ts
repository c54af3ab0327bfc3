/** One walk over the whole store that seals with the current key what is not. Whoever repeats it goes on where it stopped. */
import { pause } from '@flynn/kit/clock';
import type { Compare, Entry } from '../store.ts';
import { isSealed, keyIdOf } from './envelope.ts';
import { isOpenKey, openPrefixOf } from './rules.ts';
import type { SealedStore } from './sealed-store.ts';

const pageEntries = 200;
/** A walk leaves the store to whoever works with it. */
const atOnce = 8;
const breathMs = 5;

export type RewriteOptions = {
  signal: AbortSignal;
  /** What has to hold of every write. */
  compare?: readonly Compare[];
};

/**
 * `left`: what was changed at that moment, for the next walk. `unreadable`: the keys of what does not open with the key it
 * names, and never will.
 */
export type Walk = Readonly<{ rewritten: number; left: number; unreadable: readonly string[] }>;

/** INVARIANT: a value is written back as it was read, if nobody has written it since, on the lease it had. */
export async function rewriteAll(store: SealedStore, options: RewriteOptions): Promise<Walk> {
  const { signal } = options;
  await store.readKeys({ signal });
  const current = await store.currentKeyId({ signal });
  const unreadable: string[] = [];
  let rewritten = 0;
  let left = 0;
  let after: string | undefined;
  for (;;) {
    signal.throwIfAborted();
    const page = { first: pageEntries, signal, ...(after === undefined ? {} : { after }) };
    const { entries } = await store.raw.list('/', page);
    const last = entries.at(-1)?.key;
    if (last === undefined) return { rewritten, left, unreadable };
    const old = await store.opened(
      entries.filter(({ key, value }) => !isOpenKey(key) && keyIdOf(value) !== current),
      { signal },
    );
    const readable = old.filter(({ value }) => !isSealed(value));
    unreadable.push(...old.filter(({ value }) => isSealed(value)).map(({ key }) => key));
    for (let at = 0; at < readable.length; at += atOnce) {
      const done = await Promise.all(readable.slice(at, at + atOnce).map((entry) => writeBack(store, entry, options)));
      rewritten += done.filter((isDone) => isDone).length;
      left += done.filter((isDone) => !isDone).length;
      await pause(breathMs, signal);
    }
    after = beyond(last);
  }
}

/** Past all that lies with it where nothing there is sealed: a cell has a million placements. */
function beyond(key: string): string {
  const prefix = openPrefixOf(key);
  return prefix === undefined ? key : `${prefix}\u{10FFFF}`;
}

async function writeBack(
  store: SealedStore,
  { key, value, modRevision, lease }: Entry,
  { signal, compare = [] }: RewriteOptions,
): Promise<boolean> {
  const put = { put: key, value, ...(lease === undefined ? {} : { lease }) };
  const { succeeded } = await store.transact({ compare: [...compare, { key, modRevision }], then: [put] }, { signal });
  return succeeded;
}
