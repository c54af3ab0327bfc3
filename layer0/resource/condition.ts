/** What is true of an object now, as its reconcilers see it: one condition of each type, True is good. Pure. */
import { z } from 'zod';
import type { Resource } from './type.ts';

export const conditionSchema = z.object({
  /** PascalCase: `Healthy`. */
  type: z.string(),
  status: z.enum(['True', 'False', 'Unknown']),
  /** One word for programs, PascalCase. */
  reason: z.string(),
  /** For people. */
  message: z.string(),
  /** Since when its status has been this one: ISO 8601. */
  since: z.string(),
});
export type Condition = Readonly<z.output<typeof conditionSchema>>;

export type NewCondition = Readonly<{
  type: string;
  status: Condition['status'];
  reason: string;
  message?: string;
}>;

/** With the new ones in the place of those of their types. `since` moves only when a status does. */
export function withConditions(
  before: readonly Condition[],
  changes: readonly NewCondition[],
  at: string,
): readonly Condition[] {
  const all = new Map(before.map((condition) => [condition.type, condition]));
  for (const { message = '', ...change } of changes) {
    const known = all.get(change.type);
    all.set(change.type, { ...change, message, since: known?.status === change.status ? known.since : at });
  }
  return [...all.values()].toSorted((a, b) => (a.type < b.type ? -1 : 1));
}

export type Outlook = 'ready' | 'pending' | 'deleting' | 'unknown' | Condition;

/** An object in one word, or the condition that is not as it should be. Undefined: nobody reports on it. */
export function outlookOf(
  resource: Pick<Resource<unknown, unknown>, 'generation' | 'observedGeneration' | 'conditions' | 'deletingSince'>,
): Outlook | undefined {
  const { generation, observedGeneration, conditions, deletingSince } = resource;
  if (deletingSince !== undefined) return 'deleting';
  if (observedGeneration === undefined && conditions.length === 0) return undefined;
  // What was said of an older spec says nothing of this one.
  if (observedGeneration !== undefined && observedGeneration < generation) return 'pending';
  const bad = conditions.find(({ status }) => status === 'False');
  if (bad !== undefined) return bad;
  return conditions.some(({ status }) => status === 'Unknown') ? 'unknown' : 'ready';
}
