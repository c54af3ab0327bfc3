/** What does the trail forget first where there is too much of it? Pure. */
import { decodeJson } from '@flynn/store/codec';
import { z } from 'zod';

/** As far as it matters here. */
const entrySchema = z.object({
  actor: z.object({ kind: z.string(), name: z.string(), userId: z.string().optional() }).optional(),
  outcome: z.string().optional(),
  error: z.string().optional(),
  changes: z.array(z.unknown()).default([]),
});

type Kept = Readonly<{ key: string; value: string }>;

/**
 * Of entries from the oldest to the newest, the keys of those to go so that `keep` are left: what changed nothing before all that
 * did; of these the oldest of whoever has most, so that nobody pushes out what others did.
 */
export function superfluous(entries: readonly Kept[], keep: number): string[] {
  const tooMany = entries.length - keep;
  if (tooMany <= 0) return [];
  const all = entries.map(({ key, value }) => {
    const { actor, outcome, error, changes = [] } = read({ key, value }) ?? {};
    const who = actor?.userId ?? `${actor?.kind ?? ''} ${actor?.name ?? ''}`;
    return { key, who, isIdle: changes.length === 0 && (outcome === 'unchanged' || error !== undefined) };
  });
  const idle = all.filter(({ isIdle }) => isIdle);
  const others = all.filter(({ isIdle }) => !isIdle);
  const ofIdle = Math.min(tooMany, idle.length);
  return [...fromMost(idle, ofIdle), ...fromMost(others, tooMany - ofIdle)];
}

/** What cannot be read goes when it is old, as any other. */
function read({ key, value }: Kept): z.output<typeof entrySchema> | undefined {
  try {
    return decodeJson(entrySchema, value, key);
  } catch {
    return undefined;
  }
}

function fromMost(entries: readonly { key: string; who: string }[], count: number): string[] {
  const groups = [...Map.groupBy(entries, ({ who }) => who).values()].toSorted((a, b) => a.length - b.length);
  let left = entries.length - count;
  return groups.flatMap((group, index) => {
    // What those with less leave of their part is for those with more.
    const kept = Math.min(group.length, Math.ceil(left / (groups.length - index)));
    left -= kept;
    return group.slice(0, group.length - kept).map(({ key }) => key);
  });
}
