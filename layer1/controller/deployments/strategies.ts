/** Which counts come next, now that all asked for so far is up? Pure; what each strategy of a deployment promises. */
import type { Rollout } from './rollout-settings.ts';
import type { Counts, TypeState } from './rollout.ts';

type Type = Pick<
  TypeState,
  'type' | 'target' | 'original' | 'newWanted' | 'oldWanted' | 'newUp' | 'oldPresent' | 'isInPlace' | 'isSwitched'
>;

/** Up to this many jobs of a type are replaced in one go; more than that in quarters. */
const smallCount = 4;

export function batchOf(target: number, { batchSize }: Pick<Rollout, 'batchSize'>): number {
  return batchSize ?? Math.max(smallCount, Math.ceil(target / 4));
}

/** Whether the new release has some jobs beside all of the old one's until somebody says how it goes on. */
export function holdsShares({ strategy }: Pick<Rollout, 'strategy'>): boolean {
  return strategy === 'canary';
}

/**
 * - `in-batches`: of every type so many new ones, then as many old ones go while the next new ones start. There are never
 *   more than two batches too many.
 * - `all-at-once`: all new ones, then all old ones go.
 * - `one-by-one`: one new one, an old one ends, and so on, one type after the other.
 * - `one-down-one-up`: the other way round, for where there is no room for one more.
 * - `canary`: a few new ones beside all old ones until somebody promotes them; then as in batches.
 *
 * `wait`: old jobs have yet to end. `promotion`: the canaries are all there is to start. `done`: everything is there.
 */
export function nextCounts(
  types: readonly Type[],
  plan: Rollout,
  isPromoted: boolean,
): { newCounts: Counts; oldCounts: Counts } | 'wait' | 'promotion' | 'done' {
  if (holdsShares(plan) && !isPromoted) {
    const canariesOf = ({ isInPlace, target }: Type) => (isInPlace ? undefined : Math.min(target, plan.canaries));
    const isStarted = types.every((type) => type.newWanted >= (canariesOf(type) ?? 0));
    return isStarted ? 'promotion' : counts(types, canariesOf, ({ oldWanted }) => oldWanted);
  }
  if (types.every((type) => type.isSwitched && type.newWanted >= type.target)) return 'done';
  switch (plan.strategy) {
    case 'all-at-once':
      return counts(
        types,
        ({ target }) => target,
        ({ oldWanted }) => oldWanted,
      );
    case 'canary':
    case 'in-batches':
      // What the deployment before left is a batch at most, or this one would not have begun.
      if (hasBegun(types) && !isDown(types)) return 'wait';
      return counts(
        types,
        (type) => (type.isInPlace ? type.target : grown(type, batchOf(type.target, plan))),
        remainingOld,
      );
    case 'one-by-one':
      return oneByOne(types);
    case 'one-down-one-up':
      return oneDownOneUp(types);
    default:
      return plan.strategy satisfies never;
  }
}

function oneByOne(types: readonly Type[]): ReturnType<typeof nextCounts> {
  if (!isDown(types)) return 'wait';
  const replaced = types.find((type) => type.oldWanted > remainingOld(type) && type.newUp > 0);
  if (replaced !== undefined) return only(types, replaced, { oldWanted: remainingOld(replaced) });
  return grow(types);
}

function oneDownOneUp(types: readonly Type[]): ReturnType<typeof nextCounts> {
  if (!isDown(types)) return 'wait';
  const full = types.find((type) => !isThrough(type));
  if (full === undefined || full.isInPlace) return grow(types);
  const isRoom = full.newWanted + full.oldWanted < Math.max(full.original, full.target);
  return isRoom || full.oldWanted === 0 ? grow(types) : only(types, full, { oldWanted: full.oldWanted - 1 });
}

/** One more of the first type that wants one. */
function grow(types: readonly Type[]): ReturnType<typeof nextCounts> {
  const next = types.find((type) => !isThrough(type));
  if (next === undefined) return 'done';
  return only(types, next, { newWanted: next.isInPlace ? next.target : grown(next, 1) });
}

function only(
  types: readonly Type[],
  changed: Type,
  change: Partial<Pick<Type, 'newWanted' | 'oldWanted'>>,
): ReturnType<typeof nextCounts> {
  return counts(
    types,
    (type) => (type === changed ? change.newWanted : undefined) ?? (type.isSwitched ? type.newWanted : undefined),
    (type) => (type === changed ? change.oldWanted : undefined) ?? type.oldWanted,
  );
}

/** A type without a new count is left as it is: in place, saying so would put the new release there. */
function counts(
  types: readonly Type[],
  newOf: (type: Type) => number | undefined,
  oldOf: (type: Type) => number,
): { newCounts: Counts; oldCounts: Counts } {
  return {
    newCounts: Object.fromEntries(
      types.flatMap((type) => {
        const count = newOf(type);
        return count === undefined ? [] : [[type.type, count]];
      }),
    ),
    oldCounts: Object.fromEntries(types.map((type) => [type.type, oldOf(type)])),
  };
}

function grown({ target, newWanted }: Type, by: number): number {
  return Math.max(newWanted, Math.min(target, newWanted + by));
}

function isThrough({ isSwitched, newWanted, target }: Type): boolean {
  return isSwitched && newWanted >= target;
}

function hasBegun(types: readonly Type[]): boolean {
  return types.some(({ isSwitched, newWanted }) => isSwitched && newWanted > 0);
}

function isDown(types: readonly Type[]): boolean {
  return types.every((type) => type.isInPlace || type.oldPresent <= type.oldWanted);
}

function remainingOld({ original, target, newUp, newWanted, oldWanted, isInPlace }: Type): number {
  if (isInPlace) return oldWanted;
  if (newUp >= target && newWanted >= target) return 0;
  return Math.max(0, Math.min(oldWanted, Math.max(original, target) - newUp));
}
