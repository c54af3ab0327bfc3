/** What is the next step of a deployment? Pure: the world in, one step out. The step is taken, and the world read again. */

export type TypeState = {
  type: string;
  /** Jobs of the new release wanted at the end. */
  target: number;
  /** Jobs of the old release when it began. */
  original: number;
  /** What the workloads ask for now. */
  newWanted: number;
  oldWanted: number;
  /** Healthy jobs of the new release. */
  newUp: number;
  /** How many of them `newWanted` means: of an omni type, one on each host. */
  newExpected: number;
  /** The new release takes the old one's place in one workload: nothing to scale. */
  isInPlace: boolean;
  /** A job of the new release that crashed or could not start. */
  failed?: FailedJob | undefined;
  /** Why jobs of the new release wait for a place. */
  blocked?: string | undefined;
};

export type FailedJob = { id: string; type: string; exitCode?: number | undefined; error?: string | undefined };

export type RolloutStep =
  | { do: 'wait'; untilMs: number }
  /** The counts both releases' workloads should ask for next, of every type. */
  | { do: 'scale'; newCounts: Record<string, number>; oldCounts: Record<string, number> }
  /** Everything wanted is up: the old release may go. */
  | { do: 'complete' }
  | { do: 'fail'; error: string; job?: FailedJob };

/** Up to this many jobs of a type are replaced in one go; more than that in quarters. */
const smallCount = 4;

export function batchOf(target: number): number {
  return Math.max(smallCount, Math.ceil(target / 4));
}

/** The counts to begin with: a first batch of every type beside everything old. */
export function firstCounts(
  types: readonly Pick<TypeState, 'type' | 'target' | 'isInPlace'>[],
): Record<string, number> {
  return Object.fromEntries(
    types.map(({ type, target, isInPlace }) => [type, isInPlace ? target : Math.min(target, batchOf(target))]),
  );
}

/**
 * INVARIANTS. Old jobs go only when every new job asked for so far is up, of all types, and then only as many as are
 * replaced: healthy jobs of a type never fall below min(original, target). One failed job fails the whole.
 */
export function nextStep(rollout: {
  types: readonly TypeState[];
  nowMs: number;
  deadlineMs: number;
  timeoutMs: number;
}): RolloutStep {
  const { types, nowMs, deadlineMs, timeoutMs } = rollout;
  const failed = types.find((type) => type.failed !== undefined)?.failed;
  if (failed !== undefined) return { do: 'fail', error: failureText(failed), job: failed };
  const isUp = types.every((type) => type.newUp >= type.newExpected);
  if (isUp && types.every((type) => type.newWanted >= type.target)) return { do: 'complete' };
  if (nowMs >= deadlineMs) return { do: 'fail', error: timeoutText(types, timeoutMs) };
  if (!isUp) return { do: 'wait', untilMs: deadlineMs };
  return {
    do: 'scale',
    newCounts: Object.fromEntries(
      types.map(({ type, newWanted, target }) => [
        type,
        Math.min(target, Math.max(newWanted, newWanted + batchOf(target))),
      ]),
    ),
    oldCounts: Object.fromEntries(types.map((type) => [type.type, remainingOld(type)])),
  };
}

function remainingOld({ original, target, newUp, newWanted, oldWanted, isInPlace }: TypeState): number {
  if (isInPlace) return oldWanted;
  if (newWanted >= target) return 0;
  return Math.max(0, Math.min(oldWanted, Math.max(original, target) - newUp));
}

function failureText({ type, exitCode, error }: FailedJob): string {
  const why = error ?? (exitCode === undefined ? 'it ended' : `it ended with exit code ${exitCode}`);
  return `a ${type} job of the new release did not stay up: ${why}`;
}

function timeoutText(types: readonly TypeState[], timeoutMs: number): string {
  const missing = types
    .filter((type) => type.newUp < type.newExpected)
    .map(
      ({ type, newUp, newExpected, blocked }) =>
        `${newUp} of ${newExpected} ${type} jobs are up${blocked === undefined ? '' : ` (${blocked})`}`,
    );
  return `not everything was up within ${timeoutMs / 1000} s: ${missing.join('; ')}`;
}

/** What a release starts with: what was scaled for it, else what the old one has, and one `web` where there was none. */
export function targetCounts(input: {
  types: readonly string[];
  prepared: Readonly<Record<string, number>> | undefined;
  old: { types: readonly string[]; counts: Readonly<Record<string, number>> } | undefined;
}): Record<string, number> {
  const { types, prepared, old } = input;
  return Object.fromEntries(
    types.map((type) => {
      const carried = old?.types.includes(type) === true ? (old.counts[type] ?? 0) : undefined;
      return [type, prepared?.[type] ?? carried ?? (type === 'web' ? 1 : 0)];
    }),
  );
}
