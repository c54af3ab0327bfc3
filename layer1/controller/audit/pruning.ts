/** What does the trail forget first where there is too much of it? Pure. */
import { decodeJson } from '@flynn/store/codec';
import { z } from 'zod';
import { mayBeIdle } from './idle.ts';

/** As far as it matters here. */
const entrySchema = z.object({
  actor: z.object({ kind: z.string(), name: z.string(), userId: z.string().optional() }).optional(),
  action: z.string().default(''),
  outcome: z.string().optional(),
  error: z.string().optional(),
  changes: z.array(z.unknown()).default([]),
});

type Kept = Readonly<{ key: string; value: string }>;

/** What changed nothing has this share of the room: who was refused is worth knowing on a busy cluster, too. */
const idleShare = 0.25;

/**
 * Of entries from the oldest to the newest, the keys of those to go so that `keep` are left: of what changed nothing all but its
 * share, before anything that did; of both the oldest of whoever has most, so that nobody pushes out what others did.
 */
export function superfluous(entries: readonly Kept[], keep: number): string[] {
  const tooMany = entries.length - keep;
  if (tooMany <= 0) return [];
  const all = entries.map(({ key, value }) => {
    const { actor, action = '', outcome, error, changes = [] } = read({ key, value }) ?? {};
    const who = actor?.userId ?? `${actor?.kind ?? ''} ${actor?.name ?? ''}`;
    // Versions before this one called unchanged what hosts had carried out, too.
    const isUnchanged = outcome === 'unchanged' && mayBeIdle(action);
    return { key, who, isIdle: changes.length === 0 && (isUnchanged || error !== undefined) };
  });
  const idle = all.filter(({ isIdle }) => isIdle);
  const others = all.filter(({ isIdle }) => !isIdle);
  const room = Math.max(Math.floor(keep * idleShare), keep - others.length);
  const ofIdle = Math.max(0, idle.length - room);
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
