/** How an app's rollouts are set, and changed. Pure. */
import type { Rollout, RolloutChange } from './rollout-settings.ts';

/** What is left out stays; null takes a limit away. */
export function changedRollout(before: Rollout, change: RolloutChange): Rollout {
  const { batchSize, deadlineMs, ...rest } = before;
  const { batchSize: newSize, deadlineMs: newDeadline, ...others } = change;
  const given = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== undefined));
  const size = newSize === undefined ? batchSize : newSize;
  const deadline = newDeadline === undefined ? deadlineMs : newDeadline;
  return {
    ...rest,
    ...given,
    ...(size === null || size === undefined ? {} : { batchSize: size }),
    ...(deadline === null || deadline === undefined ? {} : { deadlineMs: deadline }),
  };
}
