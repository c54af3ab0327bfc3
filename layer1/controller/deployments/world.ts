/** What a step of a deployment looks at, read at its beginning. */
import { cellKeys, workloadSchema } from '@flynn/scheduler/cell';
import type { JobStatus, Workload } from '@flynn/scheduler/cell';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { decodeJson } from '@flynn/store/codec';
import {
  matchingHosts,
  placedJobs,
  reasonsOf,
  statusesOfApp,
  stayingStatuses,
  takesJobs,
  templateFactsSchema,
} from '../mirrors/cell-view.ts';
import type { CellView, PlacedJob } from '../mirrors/cell-view.ts';
import type { Scripts } from '../apps/app-json.ts';
import { appIdOf, workloadIdOf } from '../processes/compile.ts';
import type { Runnable } from '../processes/compile.ts';
import { expectedJobs, patienceMs } from './expected-jobs.ts';
import { endingJobs } from './former.ts';
import type { Patient } from './patience.ts';
import { findFailed, findTrouble, isOfType, unstopped, upJobs } from './progress.ts';
import type { UpTimes } from './progress.ts';
import { readTask, taskLine } from './tasks.ts';
import type { TaskState } from './tasks.ts';
import type { Deps } from '../deps.ts';
import { hasEnded } from '../jobs/views.ts';
import { runnableOf } from '../releases/releases.ts';
import { formationType, releaseType } from '../resources.ts';
import type { AppResource, DeploymentResource, FormationResource } from '../resources.ts';
import type { TypeState } from './rollout.ts';

export type Side = {
  runnable: Runnable | undefined;
  types: readonly string[];
  processes: Patient;
  releaseId: string;
  scripts: Scripts | undefined;
  formation: FormationResource | undefined;
};

export type World = {
  app: AppResource;
  deployment: DeploymentResource;
  next: Side;
  old: Side | undefined;
  /** Jobs of an earlier release that the deployment before left to this one. */
  earlier: Readonly<{ releaseId: string; processes: Patient }> | undefined;
  workloads: ReadonlyMap<string, Workload>;
  /** Of workloads that both releases have: which one’s template each has now. */
  releaseIds: ReadonlyMap<string, string | undefined>;
  /** What is run around the rollout at this time. */
  task: TaskState | undefined;
};

export async function readWorld(
  deps: Deps,
  app: AppResource,
  deployment: DeploymentResource,
  signal: AbortSignal,
): Promise<World> {
  const { oldReleaseId, newReleaseId } = deployment.spec;
  const side = async (releaseId: string): Promise<Side> => {
    const [release, formation] = await Promise.all([
      deps.resources.get(releaseType, releaseId, { signal }),
      deps.resources.find(formationType, releaseId, { signal }),
    ]);
    const runnable = await runnableOf(deps, app, release, signal);
    const { processes, scripts } = release.spec;
    return { runnable, types: Object.keys(processes), processes, releaseId, scripts, formation };
  };
  const [next, old] = await Promise.all([
    side(newReleaseId),
    oldReleaseId === undefined ? undefined : side(oldReleaseId),
  ]);
  const { drains } = deployment.spec;
  const drained = drains === undefined ? undefined : await deps.resources.find(releaseType, drains, { signal });
  const earlier = drains === undefined ? undefined : { releaseId: drains, processes: drained?.spec.processes ?? {} };
  const jobId = taskJobId(deployment);
  const ids = [...new Set([...workloadIds(app.id, next).values(), ...workloadIds(app.id, old).values()])];
  if (jobId !== undefined) ids.push(jobId);
  const read = { then: ids.map((id) => ({ get: cellKeys.workload(id) })) };
  const { reads, revision } = await deps.store.transact(read, { signal });
  const workloads = reads.flat().map((entry) => decodeJson(workloadSchema, entry.value, entry.key));
  const oldIds = new Set(workloadIds(app.id, old).values());
  const nextIds = new Set(workloadIds(app.id, next).values());
  const byId = new Map(workloads.map((workload) => [workload.id, workload]));
  return {
    app,
    deployment,
    next,
    old,
    earlier,
    workloads: byId,
    task:
      jobId === undefined ? undefined : await readTask(deps, jobId, { workload: byId.get(jobId), revision, signal }),
    releaseIds: await releaseIdsOf(
      deps,
      workloads.filter(({ id }) => oldIds.has(id) && nextIds.has(id)),
      signal,
    ),
  };
}

/** What is run around the rollout at this time. */
export function taskJobId({ status }: DeploymentResource): string | undefined {
  if (status.state === 'releasing') return status.releaseJobId;
  return status.state === 'finishing' ? status.postdeployJobId : undefined;
}

/**
 * What is to run once the release is live: begun with the write that makes it so, it never begins twice. The first is that before
 * which nothing of the app was live, here or where it was restored from: a deployment that failed does not count.
 */
export function postdeployLine({ app, deployment, next }: World): string | undefined {
  const isFirst = deployment.spec.oldReleaseId === undefined && app.status.wasLive !== true;
  return taskLine(next.scripts, 'postdeploy', { isFirst });
}

/** A template that is gone is one its workload has left meanwhile: the next look finds the other. */
async function releaseIdsOf(
  deps: Deps,
  workloads: readonly Workload[],
  signal: AbortSignal,
): Promise<Map<string, string | undefined>> {
  if (workloads.length === 0) return new Map();
  const { reads } = await deps.store.transact(
    { then: workloads.map(({ id, version }) => ({ get: cellKeys.template(id, version) })) },
    { signal },
  );
  return new Map(
    workloads.map(({ id }, index) => {
      const [entry] = reads[index] ?? [];
      return [id, entry && decodeJson(templateFactsSchema, entry.value, entry.key).meta['flynn.release']];
    }),
  );
}

/** Process type → workload. */
export function workloadIds(appId: string, side: Side | undefined): Map<string, string> {
  const runnable = side?.runnable;
  if (side === undefined || runnable === undefined) return new Map();
  return new Map(side.types.map((type) => [type, workloadIdOf(appId, runnable.release, type)]));
}

/** `nowMs`: by the clock of `upTimes`. */
export function typeStates(
  deps: Deps,
  world: World,
  upTimes: Pick<UpTimes, 'seen' | 'awaySinceMs'>,
  nowMs: number,
): TypeState[] {
  const { app, deployment, next, old, earlier, workloads, releaseIds } = world;
  const { cell } = deps;
  const { counts, oldCounts, rollout } = deployment.spec;
  const untilMs = (hostId: string) => upTimes.awaySinceMs(hostId, nowMs) + patienceMs(deployment.spec);
  const reasons = reasonsOf(cell);
  const statuses = statusesOfApp(cell, app.id);
  const staying = stayingStatuses(cell, app.id);
  const failed = findFailed(deployment, statuses);
  const nextIds = workloadIds(app.id, next);
  const oldIds = workloadIds(app.id, old);
  const ending =
    earlier === undefined ? new Map<string, readonly string[]>() : endingJobs(cell, app.id, earlier.releaseId);
  const types = [...new Set([...nextIds.keys(), ...oldIds.keys(), ...ending.keys()])];
  const up = types.flatMap((type) => upJobs(staying, next.releaseId, type));
  const upSince = upTimes.seen(deployment.id, up, nowMs);
  const isOwn = (workloadId: string) => appIdOf(workloadId) === app.id;
  const placed = placedJobs(cell, isOwn).filter((job) => cell.hosts.snapshot.entries.has(job.hostId));
  return types.map((type): TypeState => {
    const nextId = nextIds.get(type);
    const oldId = oldIds.get(type);
    const workload = nextId === undefined ? undefined : workloads.get(nextId);
    // In place, until the new release is put there, the workload is still the old one's.
    const isInPlace = nextId !== undefined && nextId === oldId;
    const isSwitched = !isInPlace || releaseIds.get(nextId) === next.releaseId;
    const newWanted = isSwitched ? (workload?.count ?? 0) : 0;
    const own = statuses.filter((status) => isOfType(status, type));
    const wanted = { newWanted, isInPlace, own };
    const { newExpected, followers, leftOutAtMs } = expectedJobs(cell, workload, wanted, { untilMs, nowMs });
    const leftOut = followers?.hosts ?? [];
    const since = upSince.filter((_, index) => up[index]?.meta['flynn.type'] === type);
    const settled = since.map((ms) => ms + rollout.minHealthyMs);
    const unsettled = settled.filter((atMs) => atMs > nowMs);
    return {
      type,
      target: counts[type] ?? 0,
      original: oldCounts[type] ?? 0,
      newWanted,
      oldWanted: oldId === undefined || isInPlace ? 0 : (workloads.get(oldId)?.count ?? 0),
      newUp: settled.length - unsettled.length,
      newExpected,
      followers,
      leftOutAtMs,
      oldUp: old === undefined ? 0 : upJobs(staying, old.releaseId, type).length,
      oldPresent:
        (oldId === undefined ? 0 : presentOld(deps, world, oldId, { statuses, placed, leftOut })) +
        (ending.get(type) ?? []).filter((hostId) => !leftOut.includes(hostId)).length,
      isInPlace,
      isSwitched,
      unstopped: newWanted > 0 || isInPlace || nextId === undefined ? 0 : unstopped(placed, nextId).length,
      failed: failed !== undefined && failed.meta['flynn.type'] === type ? { ...failed, type } : undefined,
      blocked: findTrouble(statuses, next.releaseId, type) ?? blockedOf(cell, workload, reasons),
      upSinceMs: since.length === 0 ? undefined : Math.max(...since),
      settledAtMs: unsettled.length === 0 ? undefined : Math.min(...unsettled),
    };
  });
}

/** Of an omni workload without a host that takes jobs nothing waits: schedulers have nothing to say. */
function blockedOf(cell: CellView, workload: Workload | undefined, reasons: ReadonlyMap<string, string>) {
  if (workload === undefined) return undefined;
  const { id, kind, constraints } = workload;
  if (kind === 'omni') {
    const meant = matchingHosts(cell, constraints);
    if (meant.length === 0) return 'no host meets its constraints';
    if (!meant.some((host) => takesJobs(cell, host))) return 'every host for it is cordoned or drains';
  }
  return reasons.get(id);
}

/** Old jobs of a workload that have not ended, also those that said nothing yet, but for those on hosts that are left out. */
function presentOld(
  { cell }: Deps,
  { old }: World,
  workloadId: string,
  {
    statuses,
    placed,
    leftOut,
  }: { statuses: readonly SeenStatus[]; placed: readonly PlacedJob[]; leftOut: readonly string[] },
): number {
  const templates = cell.templates.snapshot.entries;
  const isOld = (meta: JobStatus['meta'] | undefined) => meta?.['flynn.release'] === old?.releaseId;
  const own = statuses.filter((status) => status.workloadId === workloadId && isOld(status.meta));
  const told = new Set(own.map(({ id }) => id));
  const untold = placed.filter(
    (job) =>
      job.workloadId === workloadId &&
      !told.has(job.id) &&
      isOld(templates.get(`${workloadId}/${job.version}`)?.value.meta),
  );
  return own.filter((status) => !hasEnded(status) && !leftOut.includes(status.hostId)).length + untold.length;
}

/** When something was last seen to happen that brings a deployment on: a job came up, an old one ended, a step was taken. */
export function progressMsOf(deps: Deps, world: World, upTimes: UpTimes, nowMs: number): number {
  const { app, deployment, next, old, earlier } = world;
  const { id, createdAt, status, spec } = deployment;
  const events = statusesOfApp(deps.cell, app.id).flatMap((job) => {
    const releaseId = job.meta['flynn.release'];
    if (spec.knownJobs.includes(job.id)) return [];
    if (releaseId === next.releaseId && job.state === 'running' && !job.isUncertain)
      return [`${job.id} is up since ${job.startedAt ?? 0}`];
    const isOld = releaseId !== undefined && [old?.releaseId, earlier?.releaseId].includes(releaseId);
    return isOld && job.isFinal ? [`${job.id} has ended`] : [];
  });
  const times = [`a step at ${status.steppedAt ?? createdAt}`, ...events].map((what) =>
    upTimes.firstMs(id, what, { nowMs }),
  );
  // All of a canary was up when it began to wait for people, which may have been days ago.
  return Math.max(...times, status.state === 'canary' ? upTimes.wentMs(id, nowMs) : -Infinity);
}
