/** How far is a deployment? Counted from what the hosts say of their jobs. */
import type { JobStatus } from '@flynn/scheduler/cell';
import { placedJobs, statusesOfApp } from '../mirrors/cell-view.ts';
import type { CellView, PlacedJob } from '../mirrors/cell-view.ts';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { type RunnableRelease, workloadIdOf } from '../processes/compile.ts';
import type { Deployment } from '../model.ts';
import type { DeploymentResource } from '../resources.ts';

export function progressOf({ spec, status }: DeploymentResource, cell: CellView): Deployment['progress'] {
  if (status.state === 'complete' || status.state === 'failed') return status.progress;
  const statuses = statusesOfApp(cell, spec.appId);
  const types = new Set([...Object.keys(spec.counts), ...Object.keys(spec.oldCounts)]);
  return Object.fromEntries(
    [...types].map((type) => [
      type,
      {
        wanted: spec.counts[type] ?? 0,
        up: upJobs(statuses, spec.newReleaseId, type).length,
        old: spec.oldReleaseId === undefined ? 0 : upJobs(statuses, spec.oldReleaseId, type).length,
      },
    ]),
  );
}

/** What a host that is away said of a job is not counted on: no old job goes for the sake of one nobody sees. */
export function upJobs(statuses: readonly SeenStatus[], releaseId: string, type: string): SeenStatus[] {
  return statuses.filter(
    (status) => status.state === 'running' && !status.isUncertain && isOf(status, releaseId, type),
  );
}

/**
 * Since when things are so, as one worker saw it by its own steady clock: no other host's clock, and none that is put forward or
 * stood still, makes a deployment's time shorter. The next worker counts anew: a deployment takes longer then.
 */
export class UpTimes {
  readonly #since = new Map<string, ReadonlyMap<string, number>>();
  readonly #first = new Map<string, Map<string, number>>();
  readonly #wentMs = new Map<string, number>();
  readonly #awaySince = new Map<string, number>();
  readonly #steadyNow: () => number;

  constructor(steadyNow: () => number = () => performance.now()) {
    this.#steadyNow = steadyNow;
  }

  /** What all its times are told in. */
  now(): number {
    return this.#steadyNow();
  }

  /** When something was first seen of the deployment, or how long before that it was so already. */
  firstMs(deploymentId: string, what: string, { nowMs, ageMs = 0 }: { nowMs: number; ageMs?: number }): number {
    const first = this.#first.get(deploymentId) ?? new Map<string, number>();
    const atMs = first.get(what) ?? nowMs - Math.max(0, ageMs);
    this.#first.set(deploymentId, first.set(what, atMs));
    return atMs;
  }

  /** Of the deployment's jobs that are up, when each was first seen so: now, if it was not a look ago. */
  seen(deploymentId: string, up: readonly Pick<JobStatus, 'id' | 'restarts'>[], nowMs: number): number[] {
    const before = this.#since.get(deploymentId);
    const runs = up.map(({ id, restarts }) => `${id}/${restarts}`);
    const since = new Map(runs.map((run) => [run, before?.get(run) ?? nowMs]));
    this.#since.set(deploymentId, since);
    const isWhole = before !== undefined && [...before.keys()].every((run) => since.has(run));
    this.#wentMs.set(deploymentId, isWhole ? this.wentMs(deploymentId, nowMs) : nowMs);
    return runs.map((run) => since.get(run) ?? nowMs);
  }

  /** When one of those that had been up last went: what takes its place has its time from then on. */
  wentMs(deploymentId: string, nowMs: number): number {
    return this.#wentMs.get(deploymentId) ?? nowMs;
  }

  /** A host came or went. */
  hostChanged(hostId: string, { isThere }: { isThere: boolean }): void {
    if (isThere) this.#awaySince.delete(hostId);
    else this.#awaySince.set(hostId, this.now());
  }

  /** Since when a host that is away has been so: of one that nobody saw go, since it was first asked. */
  awaySinceMs(hostId: string, nowMs: number): number {
    const sinceMs = this.#awaySince.get(hostId) ?? nowMs;
    this.#awaySince.set(hostId, sinceMs);
    return sinceMs;
  }

  forget(deploymentId: string): void {
    this.#wentMs.delete(deploymentId);
    this.#since.delete(deploymentId);
    this.#first.delete(deploymentId);
  }
}

/**
 * Jobs that a release has before it is deployed, also those that their hosts have told nothing of yet: no crash of theirs is the
 * deployment's.
 */
export function jobsOfBefore(cell: CellView, appId: string, release: RunnableRelease): string[] {
  const templates = cell.templates.snapshot.entries;
  const own = new Set(Object.keys(release.processes).map((type) => workloadIdOf(appId, release, type)));
  const placed = placedJobs(cell, (workloadId) => own.has(workloadId)).filter(({ workloadId, version }) => {
    // A workload that releases share has jobs of any of them.
    const of = templates.get(`${workloadId}/${version}`)?.value.meta['flynn.release'];
    return of === undefined || of === release.id;
  });
  const told = statusesOfApp(cell, appId).filter(({ meta }) => meta['flynn.release'] === release.id);
  return [...new Set([...told, ...placed].map(({ id }) => id))];
}

/**
 * Jobs that schedulers have not yet told to stop, though nothing wants them any more: whoever asks for jobs of that workload
 * now has these, and what is wrong with them.
 */
export function unstopped(placed: readonly PlacedJob[], workloadId: string): PlacedJob[] {
  return placed.filter((job) => job.workloadId === workloadId && job.desired === 'run');
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

/** Whether the job is one of the release's formation. */
export function isJobOf(job: Pick<JobStatus, 'meta' | 'workloadId'>, releaseId: string): boolean {
  return isOf(job, releaseId, job.meta['flynn.type'] ?? '');
}

/** One of the type, of whichever release. One-off jobs are called `run` and `build` too, but their workloads end in an id. */
export function isOfType({ meta, workloadId }: Pick<JobStatus, 'meta' | 'workloadId'>, type: string): boolean {
  return meta['flynn.type'] === type && workloadId.endsWith(`-${type}`);
}

function isOf(job: Pick<JobStatus, 'meta' | 'workloadId'>, releaseId: string, type: string): boolean {
  return job.meta['flynn.release'] === releaseId && isOfType(job, type);
}
