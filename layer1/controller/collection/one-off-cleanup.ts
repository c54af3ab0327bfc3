/** Which one-off jobs are history? Pure. Hosts forget ended jobs themselves; their workloads stay until told. */
import type { JobStatus, Workload } from '@flynn/scheduler/cell';

const keepPerApp = 25;
const keepMs = 24 * 60 * 60_000;

/** Of one app: ended one-off workloads beyond the newest 25, and those that ended a day ago. */
export function expiredOneOffs(
  workloads: readonly Workload[],
  statuses: readonly JobStatus[],
  nowMs: number,
): string[] {
  const endOf = (id: string) =>
    Math.max(
      0,
      ...statuses.filter(({ workloadId }) => workloadId === id).map(({ endedAt, createdAt }) => endedAt ?? createdAt),
    );
  return workloads
    .filter(({ kind, count }) => kind === 'ephemeral' && count === 0)
    .map(({ id }) => ({ id, endedMs: endOf(id) }))
    .sort((a, b) => b.endedMs - a.endedMs || (a.id < b.id ? -1 : 1))
    .filter(({ endedMs }, index) => index >= keepPerApp || endedMs <= nowMs - keepMs)
    .map(({ id }) => id);
}
