/** What is the next step of a deployment? Pure: the world in, one step out. The step is taken, and the world read again. */
import { exitCodeText } from '@flynn/kit/exit-codes';
import type { TaskState } from './tasks.ts';
import { nextCounts } from './strategies.ts';
import type { Rollout } from './rollout-settings.ts';

export type TypeState = {
  type: string;
  /** Jobs of the new release wanted at the end. */
  target: number;
  /** Jobs of the old release when it began. */
  original: number;
  /** What the workloads ask for now. */
  newWanted: number;
  oldWanted: number;
  /** Jobs of the new release that are healthy, for as long as the plan asks. */
  newUp: number;
  /** How many of them `newWanted` means: of an omni type, one on each host. Those that follow later are none of them. */
  newExpected: number;
  /** Jobs of hosts that have been away for long enough not to be waited for. */
  followers?: Followers | undefined;
  /** When the next host that is away is not waited for any more. */
  leftOutAtMs?: number | undefined;
  /** Healthy jobs of the old release, and those that have not ended yet. */
  oldUp: number;
  oldPresent: number;
  /** The new release takes the old one's place in one workload: nothing to scale. */
  isInPlace: boolean;
  /** Whether the workload is the new release's by now; always, unless it is shared. */
  isSwitched: boolean;
  /** Before its first job: what an earlier deployment of the new release left, and schedulers have not told to stop. */
  unstopped?: number | undefined;
  /** A job of the new release that crashed or could not start. */
  failed?: FailedJob | undefined;
  /** Why jobs of the new release wait for a place. */
  blocked?: string | undefined;
  /** Since when all of its jobs that are healthy have been so; undefined without any. */
  upSinceMs?: number | undefined;
  /** When the next of its healthy jobs has been so for long enough. */
  settledAtMs?: number | undefined;
};

/** One job of each of these hosts begins with the new release once its host is back. `of`: how many there are with them. */
export type Followers = { hosts: readonly string[]; of: number; why: 'their data is there' | 'one on each host' };

export type FailedJob = {
  id: string;
  type: string;
  exitCode?: number | undefined;
  error?: string | undefined;
  /** It runs again, or is about to: how it ended before. */
  lastError?: string | undefined;
};

export type Counts = Readonly<Record<string, number>>;

export type RolloutStep =
  | { do: 'wait'; untilMs: number | undefined }
  /** The counts both releases' workloads should ask for next, of every type. */
  | { do: 'scale'; newCounts: Counts; oldCounts: Counts }
  /** What had to run first has: the rollout begins. */
  | { do: 'begin' }
  /** The canaries are up: somebody is to say whether it goes on. */
  | { do: 'hold' }
  /** They have been healthy for as long as the plan asks: nobody has to say so. */
  | { do: 'promote' }
  /** Everything wanted is up: the new release is live, the old one's jobs may end. */
  | { do: 'switch' }
  /** Nothing of the old release is left. */
  | { do: 'complete'; warning?: string }
  /** The old release gets back what was taken from it, before the new one goes. */
  | { do: 'roll_back'; error: string; job?: FailedJob }
  /** The old release is as it was: the new one goes. */
  | { do: 'fail'; error: string; job?: FailedJob };

export type RolloutView = {
  types: readonly TypeState[];
  plan: Rollout;
  /** How far it is; the words of a deployment's state. */
  phase: 'releasing' | 'running' | 'canary' | 'paused' | 'finishing' | 'rolling_back';
  isPromoted: boolean;
  /** Since when its canaries wait to be promoted. */
  heldSinceMs?: number | undefined;
  /** What runs once: in `releasing` before the rollout, in `finishing` after it. */
  task?: TaskState | undefined;
  /** Whether there is something to run once the new release is live. */
  hasPostdeploy?: boolean | undefined;
  /** Somebody wants it ended: why. */
  abort?: string | undefined;
  /** Rolling back: what failed. */
  failure?: string | undefined;
  nowMs: number;
  /** When something last came up or ended, or a step was taken. */
  progressMs: number;
  /** It fails if there is no progress for so long, and no host that is away is still waited for. */
  timeoutMs: number;
  /** Longer where its processes say so: for new jobs to come up, for old ones to end, for old ones to be back. */
  patience?: Readonly<{ startMs: number; stopMs: number; backMs: number }> | undefined;
  /** It fails if it is not through by then. */
  deadlineMs?: number | undefined;
};

/** Schedulers do so within moments: one that is away for longer is not waited for, and jobs are taken over as they are. */
const unstoppedMs = 10_000;
/** What cannot be ended in this time is its host's affair. */
const finishLimitMs = 10 * 60_000;

/**
 * INVARIANTS. Old jobs go only when every new job asked for so far is up, of all types, and then only as many as are
 * replaced: healthy jobs of a type never fall below min(original, target), and with `one-down-one-up` by no more than one.
 * One failed job fails the whole. New jobs go only when the old ones are up again. Nothing happens while it is paused.
 */
export function nextStep(view: RolloutView): RolloutStep {
  const { types, phase, nowMs, progressMs, timeoutMs, abort } = view;
  if (phase === 'finishing') {
    const { task } = view;
    if (task?.is === 'running') return { do: 'wait', untilMs: undefined };
    // Until it ends nothing else of the app is deployed.
    if (task?.is === 'waiting' && nowMs < progressMs + timeoutMs)
      return { do: 'wait', untilMs: progressMs + timeoutMs };
    const problem = task?.is === 'waiting' ? `it did not start within ${timeoutMs / 1000} s` : errorOf(task);
    const warning = warningOf(types, problem === undefined ? [] : [`its postdeploy failed: ${problem}`]);
    const isOver = types.every(({ oldPresent }) => oldPresent === 0);
    if (isOver || nowMs >= progressMs + finishLimitMs) return { do: 'complete', ...warning };
    return { do: 'wait', untilMs: progressMs + finishLimitMs };
  }
  if (phase === 'rolling_back') {
    const isBack = types.every((type) => type.isInPlace || type.oldUp >= type.original);
    // It must end even if the old release does not come up any more either.
    const limitMs = progressMs + Math.max(timeoutMs, view.patience?.backMs ?? 0);
    if (isBack || nowMs >= limitMs) return { do: 'fail', error: view.failure ?? 'it failed' };
    return { do: 'wait', untilMs: limitMs };
  }
  if (abort !== undefined) return failing(types, abort);
  if (phase === 'releasing') return release(view);
  if (phase === 'paused') return { do: 'wait', untilMs: undefined };
  const failed = types.find((type) => type.failed !== undefined)?.failed;
  if (failed !== undefined) return failing(types, failureText(failed), failed);
  return advance(view);
}

/** A release is live with what of it is up; that it is less than was wanted is told. */
function warningOf(types: readonly TypeState[], others: readonly string[] = []): { warning?: string } {
  const followers = types.flatMap(({ type, followers: later }) =>
    later === undefined ? [] : [`${later.hosts.length} of ${later.of} ${type} jobs are to follow: ${whyOf(later)}`],
  );
  const missing = types.flatMap(({ type, newUp, newExpected, newWanted, target, blocked }) => {
    // What it was scaled up to since is not the deployment's.
    const isScaled = newWanted > target;
    return newUp >= newExpected || isScaled ? [] : [shortageText({ type, newUp, newExpected, blocked })];
  });
  const warnings = [...others, ...followers, ...missing];
  return warnings.length === 0 ? {} : { warning: warnings.join('; ') };
}

function whyOf({ hosts, why }: Followers): string {
  // One has several of them, where its jobs have volumes.
  const distinct = new Set(hosts);
  const names = [...distinct].join(', ');
  const isOne = distinct.size === 1;
  if (why === 'one on each host') return `${names} ${isOne ? 'is' : 'are'} away`;
  return `their data is on ${names}, which ${isOne ? 'is' : 'are'} away`;
}

function errorOf(task: TaskState | undefined): string | undefined {
  return task?.is === 'failed' ? task.error : undefined;
}

/**
 * The old release serves meanwhile: only a job that finds no place is waited for no longer than others, and one that runs until the
 * deadline of the whole.
 */
function release({ task, nowMs, progressMs, timeoutMs, deadlineMs = Infinity }: RolloutView): RolloutStep {
  const isLate = nowMs >= deadlineMs;
  switch (task?.is) {
    case undefined:
    case 'done':
      return { do: 'begin' };
    case 'failed': {
      const { error, job } = task;
      return { do: 'fail', error: `the release command failed: ${error}`, ...(job === undefined ? {} : { job }) };
    }
    case 'running': {
      if (!isLate) return { do: 'wait', untilMs: deadlineMs === Infinity ? undefined : deadlineMs };
      const { job } = task;
      const error = 'it was not through by its deadline: the release command still ran';
      return { do: 'fail', error, ...(job === undefined ? {} : { job }) };
    }
    case 'waiting':
      if (isLate) return { do: 'fail', error: 'it was not through by its deadline: the release command did not start' };
      if (nowMs < progressMs + timeoutMs) return { do: 'wait', untilMs: Math.min(progressMs + timeoutMs, deadlineMs) };
      return { do: 'fail', error: `the release command did not start within ${timeoutMs / 1000} s` };
    default:
      return task satisfies never;
  }
}

function advance(view: RolloutView): RolloutStep {
  const { types, plan, phase, nowMs, progressMs, deadlineMs = Infinity } = view;
  const isUp = types.every((type) => type.newUp >= type.newExpected);
  const isPromoted = view.isPromoted || types.every(({ original }) => original === 0);
  const counts = nextCounts(types, plan, isPromoted);
  if (isUp && counts === 'promotion') {
    if (phase !== 'canary') return { do: 'hold' };
    const promotionMs = promotionMsOf(view);
    return promotionMs !== undefined && nowMs >= promotionMs ? { do: 'promote' } : { do: 'wait', untilMs: promotionMs };
  }
  if (isUp && counts === 'done') {
    const isAnythingLeft = types.some(({ oldWanted, oldPresent }) => oldWanted + oldPresent > 0);
    return isAnythingLeft || view.hasPostdeploy === true ? { do: 'switch' } : { do: 'complete', ...warningOf(types) };
  }
  if (nowMs >= deadlineMs) return failing(types, `it was not through by its deadline: ${missingText(types)}`);
  if (isUp && counts !== 'done' && counts !== 'promotion' && counts !== 'wait') {
    const isLeft = types.some(({ unstopped = 0 }) => unstopped > 0);
    const beginMs = Math.min(progressMs + unstoppedMs, deadlineMs);
    return isLeft && nowMs < beginMs ? { do: 'wait', untilMs: beginMs } : { do: 'scale', ...counts };
  }
  // A host that went late is left out first: what is up without it may be enough. So may be what is up, but not for long enough.
  const waitMs = stepWaitMs(view);
  const others = types.flatMap(({ leftOutAtMs = -Infinity, settledAtMs = -Infinity }) => [leftOutAtMs, settledAtMs]);
  const limitMs = Math.max(progressMs + waitMs, ...others);
  if (nowMs >= limitMs) {
    return failing(types, `nothing more came up within ${waitMs / 1000} s: ${missingText(types)}`);
  }
  const changing = types.flatMap(({ settledAtMs = Infinity, leftOutAtMs = Infinity }) => [settledAtMs, leftOutAtMs]);
  return { do: 'wait', untilMs: Math.min(limitMs, deadlineMs, ...changing) };
}

function stepWaitMs({ types, timeoutMs, patience }: RolloutView): number {
  const isComing = types.some(({ newUp, newWanted }) => newUp < newWanted);
  const isEnding = types.some(({ oldPresent, oldWanted, isInPlace }) => !isInPlace && oldPresent > oldWanted);
  return Math.max(timeoutMs, isComing ? (patience?.startMs ?? 0) : 0, isEnding ? (patience?.stopMs ?? 0) : 0);
}

/** When canaries that are well are promoted by themselves. The time begins anew with each that comes up again. */
function promotionMsOf({ types, plan, nowMs, heldSinceMs = nowMs }: RolloutView): number | undefined {
  if (plan.autoPromoteMs === undefined) return undefined;
  const since = types.flatMap(({ upSinceMs }) => (upSinceMs === undefined ? [] : [upSinceMs]));
  return Math.max(heldSinceMs, ...since) + plan.autoPromoteMs;
}

/** The new release may carry what the old one gave up: then that comes back first. */
function failing(types: readonly TypeState[], error: string, job?: FailedJob): RolloutStep {
  const isReduced = types.some((type) => !type.isInPlace && type.oldWanted < type.original);
  return { do: isReduced ? 'roll_back' : 'fail', error, ...(job === undefined ? {} : { job }) };
}

/** Why the new release is not well as far as it was started; undefined when it is. */
export function troubleOf(types: readonly TypeState[]): string | undefined {
  const failed = types.find((type) => type.failed !== undefined)?.failed;
  if (failed !== undefined) return failureText(failed);
  const lacking = types.filter(({ newUp, newExpected }) => newUp < newExpected);
  return lacking.length === 0 ? undefined : missingText(lacking);
}

function failureText({ type, exitCode, error, lastError }: FailedJob): string {
  const why = error ?? lastError ?? (exitCode === undefined ? 'it ended' : `it ended with ${exitCodeText(exitCode)}`);
  return `a ${type} job of the new release did not stay up: ${why}`;
}

function missingText(types: readonly TypeState[]): string {
  const missing = types.flatMap(
    ({ type, newUp, newExpected, oldPresent, oldWanted, blocked, isInPlace, settledAtMs }) => {
      if (newUp < newExpected) return [shortageText({ type, newUp, newExpected, blocked, settledAtMs })];
      const late = oldPresent - oldWanted;
      return isInPlace || late <= 0 ? [] : [`${late} old ${type} jobs have not ended`];
    },
  );
  return missing.length === 0 ? 'its jobs came up too slowly' : missing.join('; ');
}

function shortageText(of: Pick<TypeState, 'type' | 'newUp' | 'newExpected' | 'blocked' | 'settledAtMs'>): string {
  const why = of.blocked === undefined ? '' : ` (${of.blocked})`;
  const isYoung = of.settledAtMs !== undefined;
  return `${of.newUp} of ${of.newExpected} ${of.type} jobs are up${isYoung ? ' for as long as they have to be' : ''}${why}`;
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
