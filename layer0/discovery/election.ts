/** Which instance leads a service? The one announced first: every observer of the same set answers alike, without a vote. */
import type { Instance } from './api.ts';

/** Oldest first; ids break the tie of instances announced in one transaction. */
export function compareAge(a: Instance, b: Instance): number {
  return a.createdRevision - b.createdRevision || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

export function leaderOf(instances: Iterable<Instance>): Instance | undefined {
  let leader: Instance | undefined;
  for (const instance of instances) {
    if (leader === undefined || compareAge(instance, leader) < 0) leader = instance;
  }
  return leader;
}
