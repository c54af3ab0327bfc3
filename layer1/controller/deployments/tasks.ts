/** What a release wants run once around its deployment, as one-off jobs: before it takes over, and once it is live. */
import { exitCodeText } from '@flynn/kit/exit-codes';
import type { Piece } from '@flynn/resource/piece';
import type { Workload } from '@flynn/scheduler/cell';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { workloadChange } from '@flynn/scheduler/evaluations';
import type { Scripts } from '../apps/app-json.ts';
import { seenStatuses } from '../mirrors/cell-view.ts';
import { compileOneOff, lineCommand } from '../processes/compile.ts';
import type { Runnable } from '../processes/compile.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { hasEnded } from '../jobs/views.ts';
import type { FailedJob } from './rollout.ts';

/** A migration may take its time, but not for ever. */
const taskLimitMs = 60 * 60_000;

export type Task = 'release' | 'postdeploy';

export type TaskState =
  | { is: 'waiting' }
  | { is: 'running'; job?: FailedJob }
  | { is: 'done' }
  | { is: 'failed'; error: string; job?: FailedJob };

/**
 * The line each runs, undefined where there is nothing to run. What comes first has to succeed for the next. `isFirst`: nothing
 * of the app was live before.
 */
export function taskLine(
  scripts: Scripts | undefined,
  task: Task,
  { isFirst = false }: { isFirst?: boolean } = {},
): string | undefined {
  const { predeploy, release, postdeploy, postdeployEach } = scripts ?? {};
  const wanted = task === 'release' ? [predeploy, release] : [isFirst ? postdeploy : undefined, postdeployEach];
  const lines = wanted.filter((line) => line !== undefined);
  return lines.length < 2 ? lines[0] : lines.map((line) => `{ ${line}\n}`).join(' && ');
}

export function taskId(appId: string, task: Task, deploymentId: string): string {
  return `${appId}-${task}-${deploymentId}`;
}

/** Starts it, once: its workload's id follows from the deployment's. */
export function taskPiece(deps: Deps, runnable: Runnable, task: { id: string; type: Task; line: string }): Piece {
  const workload = compileOneOff(runnable, {
    workloadId: task.id,
    type: task.type,
    command: lineCommand(runnable, task.line),
    env: {},
    tty: false,
    stdin: false,
    maxRuntimeMs: taskLimitMs,
  });
  return { then: workloadChange(workload, evaluationContext(deps)) };
}

/** How far is it? Pure. `workload` is as the store has it now. */
export function taskState(
  id: string,
  { workload, statuses }: { workload: Pick<Workload, 'count'> | undefined; statuses: readonly SeenStatus[] },
): TaskState {
  const own = statuses.filter((status) => status.workloadId === id).toSorted((a, b) => b.createdAt - a.createdAt);
  const [status] = own;
  if (status === undefined) {
    if (workload !== undefined && workload.count > 0) return { is: 'waiting' };
    return {
      is: 'failed',
      error: workload === undefined ? 'somebody stopped it' : 'how it ended is not known any more',
    };
  }
  const { id: jobId, exitCode, error, state } = status;
  const type = status.meta['flynn.type'] ?? '';
  if (!hasEnded(status)) return state === 'pending' ? { is: 'waiting' } : { is: 'running', job: { id: jobId, type } };
  if (state === 'done' && (exitCode === undefined || exitCode === 0)) return { is: 'done' };
  const why = error ?? (state === 'lost' ? 'its host was lost' : state === 'done' ? 'somebody stopped it' : undefined);
  return {
    is: 'failed',
    error: why ?? (exitCode === undefined ? 'it ended' : `it ended with ${exitCodeText(exitCode)}`),
    job: { id: jobId, type, exitCode, error },
  };
}

/**
 * `taskState` of what hosts have said up to the revision at which the store was read. A workload that is through there was
 * ended by a status that may not have reached the mirror yet: without it nobody knows how it ended.
 */
export async function readTask(
  { cell }: Pick<Deps, 'cell'>,
  id: string,
  at: { workload: Pick<Workload, 'count'> | undefined; revision: number; signal: AbortSignal },
): Promise<TaskState> {
  const look = () =>
    taskState(id, { workload: at.workload, statuses: seenStatuses(cell, (one) => one.workloadId === id) });
  const state = look();
  if (state.is !== 'failed' || state.job !== undefined) return state;
  await cell.statuses.reached(at.revision, { signal: at.signal });
  return look();
}
