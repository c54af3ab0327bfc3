/** Which instance leads a service? Every observer of the same set and choice answers alike, without a vote. */
import type { Instance, LeaderChoice } from './api.ts';

/** Oldest first; ids break the tie of instances announced in one transaction. */
export function compareAge(a: Instance, b: Instance): number {
  return a.createdRevision - b.createdRevision || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/** The one chosen by hand or nobody: who chooses does not want another to take its place. */
export function leaderOf(instances: ReadonlyMap<string, Instance>, choice: LeaderChoice): Instance | undefined {
  if (choice.by === 'manual') return instances.get(choice.instance);
  let leader: Instance | undefined;
  for (const instance of instances.values()) {
    if (leader === undefined || compareAge(instance, leader) < 0) leader = instance;
  }
  return leader;
}
