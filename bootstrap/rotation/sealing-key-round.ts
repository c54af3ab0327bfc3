/**
 * Pure. The sealing key is made anew while nobody who has to read is without the one in use. Where it is stands in cluster.json
 * and in the ring of the store; the next `up` goes on with one that was broken off.
 *
 *     phase      the ring                             hosts and controllers have   cluster.json has
 *     opening    under the former, names the new      the former, then both too    the former, `next`
 *     rewriting  under the new, with a new data key   both, then the new alone     the new
 *     done       the same, older data keys are gone   the new                      the new, no change
 *
 * The ring is sealed under the new one once every host that is there and all controllers have both. What a version before knows
 * of is in each phase what it needs: cluster.json, `sealing.key` and the ring have the one in use where they ever had it.
 */
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { type Ring, sealedUnder } from '@flynn/store/sealing/ring';
import type { Begun } from './rotation.ts';
import type { Cluster } from '../settings.ts';

/** What hosts and controllers are to have, the one in use first. */
export function sealingKeysOf({
  sealingKey,
  sealingKeyChange,
}: Pick<Cluster, 'sealingKey' | 'sealingKeyChange'>): string[] {
  const next = sealingKeyChange?.next;
  return next === undefined || next === sealingKey ? [sealingKey] : [sealingKey, next];
}

/** With a new one begun; a change that is not through is gone on with instead. */
export function withNextSealingKey(cluster: Cluster, key: string, { id, since }: Begun): Cluster {
  return cluster.sealingKeyChange === undefined ? { ...cluster, sealingKeyChange: { id, since, next: key } } : cluster;
}

/** Once the ring is sealed under the new one. */
export function withSealed(cluster: Cluster): Cluster {
  if (cluster.sealingKeyChange === undefined) return cluster;
  const { next, ...begun } = cluster.sealingKeyChange;
  return { ...cluster, sealingKey: next ?? cluster.sealingKey, sealingKeyChange: begun };
}

/** Once all secrets are sealed with keys that whoever had the former never had; or where it may not begin. */
export function withoutSealingChange(cluster: Cluster): Cluster {
  const { sealingKeyChange: _done, ...rest } = cluster;
  return rest;
}

/**
 * As the store has it: a change that was broken off after the ring was sealed anew, and a file that is of an earlier time.
 * `onDisk`: what this host's agent has, which fetches what the ring names from other hosts.
 */
export function withRingsKey(cluster: Cluster, ring: Ring | undefined, onDisk: readonly string[]): Cluster {
  if (ring === undefined) return cluster;
  const under = sealedUnder(ring);
  const isInUse = (key: string): boolean => sealKeyOf(key).id === under;
  if (isInUse(cluster.sealingKey)) return cluster;
  const next = cluster.sealingKeyChange?.next;
  if (next !== undefined && isInUse(next)) return withSealed(cluster);
  const other = onDisk.find(isInUse);
  return other === undefined ? cluster : { ...withoutSealingChange(cluster), sealingKey: other };
}
