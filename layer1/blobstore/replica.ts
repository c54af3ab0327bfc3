/** The port behind a blob store that has others beside it: the copies that one of them holds, and what it knows. */
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { digestSchema, listedBlobSchema } from './api.ts';
import type { Blob, ListedBlob } from './api.ts';
import type { Page } from './storage.ts';

/** What was not used at `before` or later is to go, wherever a copy of it turns up. Milliseconds since the epoch. */
export const removalSchema = z.object({ digest: digestSchema, before: z.number() });
export type Removal = z.output<typeof removalSchema>;

/** Where a name points since when; null says that it was removed. */
export const pointerSchema = z.object({ name: z.string(), digest: digestSchema.nullable(), changedAt: z.number() });
export type Pointer = z.output<typeof pointerSchema>;

export const heldSchema = listedBlobSchema;
export type Held = ListedBlob;

type Limits = { signal?: AbortSignal | undefined };

/**
 * Merging. Two facts are known of a digest: when it was last used, and before when it is removed. Of each the latest
 * counts, and a blob lives exactly while it was used at its removal or later: whatever order copies, uses and removals
 * arrive in, at whichever store, the outcome is the same, and what was removed does not come back with a copy that was
 * away. A name is its latest pointer; of two of the same moment the greater digest, and a removal the least.
 * Removals are remembered for 30 days. What comes back later than that is what nobody needs, and goes as such again.
 *
 * Durability, identity and errors are those of Storage. Nothing but `use` and new bytes count as a use.
 */
export type Replica = {
  /** Keeps what was last used then, in place of what is there; a `conflict` if it was removed since. */
  copy(held: Pick<Held, 'digest' | 'usedAt'>, body: AsyncIterable<Uint8Array>, options?: Limits): Promise<Held>;
  open(digest: string, options?: Limits & { from?: number }): Promise<{ sizeBytes: number; body: Readable }>;
  find(digest: string, options?: Limits): Promise<Held | undefined>;
  /** Used then, unless it was used later. Undefined if it is not there. */
  use(digest: string, at: number, options?: Limits): Promise<Blob | undefined>;
  /** False, and nothing done, if it was used at `before` or later. Also what is not there is remembered as removed. */
  remove(removal: Removal, options?: Limits): Promise<boolean>;
  list(page: Page, options?: Limits): Promise<Held[]>;
  removals(page: Page, options?: Limits): Promise<Removal[]>;
  /** Also one that says that the name was removed. */
  pointer(name: string, options?: Limits): Promise<Pointer | undefined>;
  /** Takes it unless it has a later one. */
  point(pointer: Pointer, options?: Limits): Promise<void>;
  pointers(page: Page, options?: Limits): Promise<Pointer[]>;
};

/** One's own: it alone takes new bytes. */
export type OwnReplica = Replica & {
  /** Used now, whatever was removed before. With `digest`, bytes that have another one are refused. */
  put(body: AsyncIterable<Uint8Array>, options: Limits & { digest?: string | undefined }): Promise<Held>;
  /** Since when a copy of it is not taken: what was used before then. */
  removedBefore(digest: string): Promise<number | undefined>;
};

export const removalMemoryMs = 30 * 24 * 3_600_000;

/** Whether the first is in force where both are known. */
export function isLater(one: Pointer, other: Pointer | undefined): boolean {
  if (other === undefined || one.changedAt !== other.changedAt) return one.changedAt > (other?.changedAt ?? -1);
  return (one.digest ?? '') > (other.digest ?? '');
}

/** Sorted pages of several stores as one page: what any of them has, each key once, merged. */
export function mergedPage<T>(
  pages: readonly (readonly T[])[],
  options: { limit: number; keyOf: (value: T) => string; merge: (one: T, other: T) => T },
): T[] {
  const { limit, keyOf, merge } = options;
  const byKey = new Map<string, T>();
  for (const value of pages.flat()) {
    const known = byKey.get(keyOf(value));
    byKey.set(keyOf(value), known === undefined ? value : merge(known, value));
  }
  // Beyond the end of a full page its store may have what is not known here.
  const ends = pages.flatMap((page) => {
    const last = page.at(-1);
    return last === undefined || page.length < limit ? [] : [keyOf(last)];
  });
  return [...byKey.values()]
    .filter((value) => ends.every((end) => keyOf(value) <= end))
    .toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
    .slice(0, limit);
}

const pageSize = 1_000;

/** All pages of a list, value by value. */
export async function* allOf<T>(
  read: (page: Page) => Promise<readonly T[]>,
  keyOf: (value: T) => string,
): AsyncGenerator<T> {
  for (let after = ''; ;) {
    const values = await read({ after, limit: pageSize });
    yield* values;
    const last = values.at(-1);
    if (last === undefined || values.length < pageSize) return;
    after = keyOf(last);
  }
}
