/** What is to be done about a line of cron now? Pure. */
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { taskState } from '../deployments/tasks.ts';
import { iso } from '../jobs/views.ts';
import { lastTick, nextTick } from './schedule.ts';
import type { Schedule } from './schedule.ts';
import type { CronEntry } from '../apps/app-json.ts';
import type { CronRun } from './model.ts';

const keepRuns = 20;
/** Runs of a line that go on at a time: each is looked at, and written with the line, until it ends. */
export const maxRunning = 100;
const dayMs = 24 * 60 * 60_000;

export type CronState = { isPaused: boolean; handledMs: number; runs: readonly CronRun[] };

export type CronAction =
  | { do: 'wait'; untilMs: number | undefined }
  /** `replaces`: what still runs, and was not told to stop before, is to go. */
  | { do: 'run'; tickMs: number; replaces: readonly string[] }
  | { do: 'skip'; tickMs: number; why: string }
  /** What is said to be dealt with is of a clock that was ahead: from now on it is counted anew. */
  | { do: 'reset' };

/**
 * Of ticks that were missed, however many, only the last is made up for. A clock that was put back falls behind what is
 * dealt with, and nothing runs until it is past that again; one that was a day and more ahead is not waited for, and
 * if it was right after all, what it ran does not run again.
 */
export function nextAction(
  schedule: Schedule,
  overlap: CronEntry['overlap'],
  { isPaused, handledMs, runs }: CronState,
  nowMs: number,
): CronAction {
  if (isPaused) return { do: 'wait', untilMs: undefined };
  if (handledMs > nowMs + dayMs) return { do: 'reset' };
  const tickMs = lastTick(schedule, { afterMs: handledMs, untilMs: nowMs });
  if (tickMs === undefined || runs.some(({ tick }) => tick === iso(tickMs))) {
    return { do: 'wait', untilMs: nextTick(schedule, Math.max(nowMs, handledMs)) };
  }
  const running = runs.filter(({ state, workloadId }) => state === 'running' && workloadId !== undefined);
  if (running.length > 0 && overlap === 'forbid') {
    return { do: 'skip', tickMs, why: 'the run before was still going on' };
  }
  if (running.length >= maxRunning && overlap === 'allow') {
    return { do: 'skip', tickMs, why: `${running.length} runs before were still going on` };
  }
  if (overlap !== 'replace') return { do: 'run', tickMs, replaces: [] };
  const going = running.filter(({ replacedAt }) => replacedAt === undefined);
  const ending = running.length - going.length;
  if (ending >= maxRunning) {
    return { do: 'skip', tickMs, why: `${ending} runs before were told to stop and have not ended` };
  }
  // So many at a time as one transaction takes, the newest first: of a line of before it was noted the others were told already.
  return { do: 'run', tickMs, replaces: going.slice(0, maxRunning).flatMap(({ workloadId }) => workloadId ?? []) };
}

/** The runs with a note in those that the next one replaces: they are told to stop once, however long they take to. */
export function withReplaced(runs: readonly CronRun[], replaces: readonly string[], at: string): CronRun[] {
  const ids = new Set(replaces);
  return runs.map((run) => (ids.has(run.workloadId ?? '') ? { ...run, replacedAt: at } : run));
}

/**
 * The newest first, and not more than are of use, but each that still runs: what is not in here is neither waited for, nor
 * stopped, nor does anybody learn how it ended. Ticks skipped one after the other are one entry, so that they push no run out.
 */
export function withRun(runs: readonly CronRun[], run: CronRun): CronRun[] {
  const [last, ...before] = runs;
  const isOneMore = run.state === 'skipped' && last?.state === 'skipped';
  const all = isOneMore ? [{ ...run, skips: (last.skips ?? 1) + 1 }, ...before] : [run, ...runs];
  return all.filter(({ state }, at) => at < keepRuns || state === 'running');
}

/** Runs that ended since, with how. A job nobody knows of any more has ended too. */
export function settledRuns(
  runs: readonly CronRun[],
  seen: { countOf: (workloadId: string) => number | undefined; statuses: readonly SeenStatus[]; at: string },
): CronRun[] {
  return runs.map((run) => {
    if (run.state !== 'running' || run.workloadId === undefined) return run;
    const { workloadId } = run;
    const count = seen.countOf(workloadId);
    const workload = count === undefined ? undefined : { count };
    const state = taskState(workloadId, { workload, statuses: seen.statuses });
    const status = seen.statuses.find((one) => one.workloadId === workloadId);
    const placed = status === undefined || run.jobId === status.id ? run : { ...run, jobId: status.id };
    if (state.is === 'waiting' || state.is === 'running') return placed;
    const endedAt = status?.endedAt === undefined ? seen.at : new Date(status.endedAt).toISOString();
    if (state.is === 'done') return { ...placed, state: 'done', endedAt, exitCode: 0 };
    const exitCode = state.job?.exitCode;
    return { ...placed, state: 'failed', endedAt, error: state.error, ...(exitCode === undefined ? {} : { exitCode }) };
  });
}
