/** The scheduler of this host, with a user's own beside the built-in ones. */
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { TaskGroup } from '@flynn/kit/tasks';
import { startScheduler } from '@flynn/scheduler/scheduler';
import type { RunningScheduler, SchedulerOptions } from '@flynn/scheduler/scheduler';

/**
 * `fault`: what is wrong with the modules at the paths, if so: it then runs without them. A file that is gone after a
 * restart must not keep a host from running its jobs; workloads of its kind are left to hosts that have it.
 */
export async function startOwnScheduler(
  options: Pick<SchedulerOptions, 'store' | 'id' | 'log' | 'takeoverMs'> & { schedulerPaths: readonly string[] },
  tasks: TaskGroup,
): Promise<{ scheduler: RunningScheduler; fault: string | undefined }> {
  const common = { ...options, signal: tasks.signal, tasks };
  try {
    return { scheduler: await startScheduler(common), fault: undefined };
  } catch (error) {
    if (options.schedulerPaths.length === 0 || !hasCode(error, 'invalid')) throw error;
    options.log.error({ err: error }, `FLYNN_SCHEDULERS: ${messageOf(error)}`);
    return { scheduler: await startScheduler({ ...common, schedulerPaths: [] }), fault: messageOf(error) };
  }
}
