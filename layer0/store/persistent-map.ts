/** A map whose changed copies share what did not change: a batch of changes to 100,000 entries copies some hundred. */

const width = 32;

type Bucket<V> = ReadonlyMap<string, V>;
type Branch<V> = readonly Bucket<V>[];

const emptyBucket: Bucket<never> = new Map<string, never>();
const emptyBranch: Branch<never> = Array.from({ length: width }, () => emptyBucket);
const emptyRoot: readonly Branch<never>[] = Array.from({ length: width }, () => emptyBranch);

/**
 * INVARIANTS. An instance never changes. A key lives in the bucket its hash names: 32 branches of 32 buckets. Iteration
 * goes by bucket, not by key: sort where order matters.
 */
export class PersistentMap<V> implements ReadonlyMap<string, V> {
  readonly size: number;
  readonly #root: readonly Branch<V>[];

  private constructor(root: readonly Branch<V>[], size: number) {
    this.#root = root;
    this.size = size;
    Object.freeze(this);
  }

  static empty<V>(): PersistentMap<V> {
    return new PersistentMap<V>(emptyRoot, 0);
  }

  get(key: string): V | undefined {
    return this.#bucket(key).get(key);
  }

  has(key: string): boolean {
    return this.#bucket(key).has(key);
  }

  /** The map with these keys set, and those with `undefined` removed. The last change of a key wins. */
  with(changes: Iterable<readonly [string, V | undefined]>): PersistentMap<V> {
    const root = [...this.#root];
    const ownBranches = new Map<number, Bucket<V>[]>();
    const ownBuckets = new Map<number, Map<string, V>>();
    let size = this.size;
    for (const [key, value] of changes) {
      const hash = hashOf(key);
      let bucket = ownBuckets.get(hash);
      if (bucket === undefined) {
        const high = hash >>> 5;
        let branch = ownBranches.get(high);
        if (branch === undefined) {
          branch = [...(root[high] ?? emptyBranch)];
          ownBranches.set(high, branch);
          root[high] = branch;
        }
        bucket = new Map(branch[hash & 31] ?? emptyBucket);
        ownBuckets.set(hash, bucket);
        branch[hash & 31] = bucket;
      }
      size -= bucket.size;
      if (value === undefined) bucket.delete(key);
      else bucket.set(key, value);
      size += bucket.size;
    }
    return ownBuckets.size === 0 ? this : new PersistentMap(root, size);
  }

  *entries(): MapIterator<[string, V]> {
    for (const branch of this.#root) {
      // A small map is mostly these, and an iterator for each would be most of the work.
      if (branch === emptyBranch) continue;
      for (const bucket of branch) if (bucket.size > 0) yield* bucket;
    }
    return undefined;
  }

  *keys(): MapIterator<string> {
    for (const [key] of this.entries()) yield key;
    return undefined;
  }

  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value;
    return undefined;
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  forEach(visit: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this.entries()) visit(value, key, this);
  }

  #bucket(key: string): Bucket<V> {
    const hash = hashOf(key);
    return this.#root[hash >>> 5]?.[hash & 31] ?? emptyBucket;
  }
}

/** FNV-1a, folded to ten bits. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i += 1) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 10) ^ (hash >>> 20)) & 1023;
}
