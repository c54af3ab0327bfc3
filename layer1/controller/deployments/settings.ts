/** How an app's rollouts are set, and changed. Pure. */
import type { Rollout, RolloutChange } from './rollout-settings.ts';

/** What is left out stays; null takes a limit away. */
export function changedRollout(before: Rollout, change: RolloutChange): Rollout {
  const { batchSize, deadlineMs, autoPromoteMs, ...rest } = before;
  const { batchSize: newSize, deadlineMs: newDeadline, autoPromoteMs: newPromotion, ...others } = change;
  const given = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== undefined));
  const size = changed(batchSize, newSize);
  const deadline = changed(deadlineMs, newDeadline);
  const promotion = changed(autoPromoteMs, newPromotion);
  return {
    ...rest,
    ...given,
    ...(size === undefined ? {} : { batchSize: size }),
    ...(deadline === undefined ? {} : { deadlineMs: deadline }),
    ...(promotion === undefined ? {} : { autoPromoteMs: promotion }),
  };
}

function changed(before: number | undefined, change: number | null | undefined): number | undefined {
  return change === undefined ? before : (change ?? undefined);
}
