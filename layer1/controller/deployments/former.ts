/**
 * May a deployment begin while old jobs of the one before are still ending? Then that one is complete with this one's beginning,
 * and this one waits for what is left of it: as long as any old job ends, a deployment of the app is under way.
 */
import { writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { placedJobs, statusesOfApp } from '../mirrors/cell-view.ts';
import type { CellView } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { hasEnded } from '../jobs/views.ts';
import { deploymentType } from '../resources.ts';
import type { AppResource, DeploymentResource } from '../resources.ts';
import { mayBeFollowed } from './phases.ts';
import { isJobOf, progressOf } from './progress.ts';
import type { Rollout } from './rollout-settings.ts';
import type { Counts } from './rollout.ts';
import { batchOf } from './strategies.ts';

/** By type, the hosts of jobs of the release's formation that have not ended, also of those that said nothing yet. */
export function endingJobs(cell: CellView, appId: string, releaseId: string): ReadonlyMap<string, readonly string[]> {
  const own = statusesOfApp(cell, appId).filter((status) => isJobOf(status, releaseId));
  const told = new Set(own.map(({ id }) => id));
  const templates = cell.templates.snapshot.entries;
  const untold = placedJobs(cell, (workloadId) => appIdOf(workloadId) === appId)
    .filter((job) => !told.has(job.id) && cell.hosts.snapshot.entries.has(job.hostId))
    .map(({ workloadId, version, hostId }) => ({
      workloadId,
      hostId,
      meta: templates.get(`${workloadId}/${version}`)?.value.meta ?? {},
    }))
    .filter((job) => isJobOf(job, releaseId));
  const ending = [...own.filter((status) => !hasEnded(status)), ...untold];
  const byType = Map.groupBy(ending, ({ meta }) => meta['flynn.type'] ?? '');
  return new Map([...byType].map(([type, jobs]) => [type, jobs.map(({ hostId }) => hostId)]));
}

/**
 * Whether anything runs in the app that is not of its live release: also after a deployment that failed while old jobs of one
 * before were ending. What such jobs have may not be taken from them. Of a host that is away nobody knows.
 */
export function hasOldJobs(cell: CellView, { id, status: { releaseId } }: Pick<AppResource, 'id' | 'status'>): boolean {
  return statusesOfApp(cell, id).some((status) => {
    const of = status.meta['flynn.release'] ?? '';
    return of !== releaseId && isJobOf(status, of) && !hasEnded(status) && !status.isUncertain;
  });
}

export type Next = Readonly<{ releaseId: string; counts: Counts; rollout: Rollout }>;

/**
 * The release whose jobs the next deployment has to wait for besides its own old ones; undefined: it has to wait for the former.
 * What is left may be a batch of each type: with the batch that the next one begins with there are never more than two too many.
 * Other strategies promise fewer. Of two that are ending it waits for the end of the first: pushes do not add up.
 */
export function leftBy(former: DeploymentResource, next: Next, cell: CellView): string | undefined {
  const { spec, status } = former;
  const { appId, oldReleaseId, drains, rollout } = spec;
  const state = { state: status.state, postdeployJobId: status.postdeployJobId };
  if (!mayBeFollowed({ ...state, rollout }) || !mayBeFollowed({ ...state, rollout: next.rollout })) return undefined;
  // What comes back would be counted with what is ending.
  if (oldReleaseId === undefined || oldReleaseId === next.releaseId) return undefined;
  if (drains !== undefined && endingJobs(cell, appId, drains).size > 0) return undefined;
  const left = [...endingJobs(cell, appId, oldReleaseId)];
  return left.every(([type, jobs]) => jobs.length <= batchOf(next.counts[type] ?? 0, next.rollout))
    ? oldReleaseId
    : undefined;
}

/** From here on it is complete, though not all of its old jobs have ended. */
export function endOfFormer({ cell, now }: Pick<Deps, 'cell' | 'now'>, former: DeploymentResource): Piece {
  const at = new Date(now()).toISOString();
  const ended = { state: 'complete' as const, progress: progressOf(former, cell), steppedAt: at, endedAt: at };
  return writePiece(deploymentType, former, { ...former, updatedAt: at, status: { ...former.status, ...ended } });
}
