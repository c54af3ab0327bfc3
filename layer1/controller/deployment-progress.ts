/** How far is a deployment? Counted from what the hosts say of their jobs. */
import type { JobStatus } from '@flynn/scheduler/cell';
import { statusesOfApp } from './cell-view.ts';
import type { CellView } from './cell-view.ts';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import type { Deployment } from './model.ts';
import type { DeploymentResource } from './resources.ts';

export function progressOf({ spec, status }: DeploymentResource, cell: CellView): Deployment['progress'] {
  if (status.state === 'complete' || status.state === 'failed') return status.progress;
  const statuses = statusesOfApp(cell, spec.appId);
  const types = new Set([...Object.keys(spec.counts), ...Object.keys(spec.oldCounts)]);
  return Object.fromEntries(
    [...types].map((type) => [
      type,
      {
        wanted: spec.counts[type] ?? 0,
        up: upCount(statuses, spec.newReleaseId, type),
        old: spec.oldReleaseId === undefined ? 0 : upCount(statuses, spec.oldReleaseId, type),
      },
    ]),
  );
}

/** What a host that is away said of a job is not counted on: no old job goes for the sake of one nobody sees. */
export function upCount(statuses: readonly SeenStatus[], releaseId: string, type: string): number {
  return statuses.filter((status) => status.state === 'running' && !status.isUncertain && isOf(status, releaseId, type))
    .length;
}

/** A job of the new release, not there before the deployment, that ended on its own. */
export function findFailed({ spec }: DeploymentResource, statuses: readonly SeenStatus[]): SeenStatus | undefined {
  return statuses.find(
    (status) =>
      Object.keys(spec.counts).some((type) => isOf(status, spec.newReleaseId, type)) &&
      !spec.knownJobs.includes(status.id) &&
      (status.state === 'crashed' || status.state === 'failed' || status.restarts > 0),
  );
}

/** What a job that is not up says of itself, "could not pull …, trying again", or that its host is away. */
export function findTrouble(statuses: readonly SeenStatus[], releaseId: string, type: string): string | undefined {
  return statuses.find(
    (status) => !status.isFinal && (status.state !== 'running' || status.isUncertain) && isOf(status, releaseId, type),
  )?.error;
}

/** One-off jobs are called `run` and `build` too, but their workloads end in an id. */
function isOf({ meta, workloadId }: JobStatus, releaseId: string, type: string): boolean {
  return meta['flynn.release'] === releaseId && meta['flynn.type'] === type && workloadId.endsWith(`-${type}`);
}
