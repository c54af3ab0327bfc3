/** Jobs: what runs of an app, one-off jobs and builds, attaching and stopping. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { compareOf } from '@flynn/resource/record';
import { workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import { cellKeys } from '@flynn/scheduler/cell';
import type { z } from 'zod';
import { checkDeployedLinks } from '../access/links.ts';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { jobs } from '../api.ts';
import { awaitPlacement, joinSockets, placementOf } from './attach.ts';
import type { Placement } from './attach.ts';
import { placedJobs, reasonsOf, seenStatuses, valuesOf } from '../mirrors/cell-view.ts';
import type { CellView } from '../mirrors/cell-view.ts';
import { execCommand, execTarget } from './exec.ts';
import { checkShell } from '../datastores/shells.ts';
import { isSamePlace, placeIn, placeOf } from '../builds/place.ts';
import type { BuildPlace } from '../builds/place.ts';
import { buildOperationOf, buildWorkloadId, compileBuild } from '../builds/compile.ts';
import { compileOneOff } from '../processes/compile.ts';
import type { CompiledWorkload, Runnable } from '../processes/compile.ts';
import { evaluationContext, findApp, forLiveApp, isOvertaken, runnableApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { findJob, iso, jobsOfApp } from './views.ts';
import type { Cell } from './views.ts';
import type { Job } from '../model.ts';
import { buildMarker, buildStopMarker } from '../operations/log.ts';
import { checkLosses } from '../operations/losses.ts';
import { pageOf } from '../paging.ts';
import { findBasis, findRelease, runnableOf } from '../releases/releases.ts';
import { releaseType } from '../resources.ts';
import { findOperation } from '../operations/records.ts';
import { buildEnvOf, labelsOfRunner } from '../runner-env/handlers.ts';
import type { AppResource, DeploymentResource, OperationResource, ReleaseResource } from '../resources.ts';

/** The system app whose `build` process builds slugs. */
const builderApp = 'slug-builder';

export function cellOf(cell: CellView): Cell {
  const templates = cell.templates.snapshot.entries;
  return {
    workloads: valuesOf(cell.workloads),
    placed: placedJobs(cell),
    statuses: seenStatuses(cell),
    isHostThere: (hostId) => cell.hosts.snapshot.entries.has(hostId),
    metaOf: ({ workloadId, version }) => templates.get(`${workloadId}/${version}`)?.value.meta ?? {},
    reasons: reasonsOf(cell),
  };
}

export function jobHandlers(deps: Deps): Handler[] {
  return [
    handle(jobs.list, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      await catchUpWithApp(deps, app.id, signal);
      const all = jobsOfApp(app.id, cellOf(deps.cell), { all: query.all ?? false, nowMs: deps.now() });
      return pageOf(all, query, ({ id }) => id);
    }),
    handle(jobs.get, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      await catchUp(deps, params.job, signal);
      const found = findJob(jobsOfApp(app.id, cellOf(deps.cell), { all: true, nowMs: deps.now() }), params.job);
      if (found === undefined) throw noJob(app, params.job);
      return found;
    }),
    handle(jobs.run, async (call) => {
      const { params, body, signal } = call;
      return forLiveApp(deps, params.app, signal, async (app) => {
        const principal = principalOf(call);
        checkShell(app, principal);
        return runOneOff(deps, app, body, { principal, signal });
      });
    }),
    handle(jobs.build, async (call) => {
      const { params, body, signal } = call;
      if (principalOf(call).runnerId !== undefined) await checkOwnSource(deps, body, signal);
      return forLiveApp(deps, params.app, signal, (app) => startBuild(deps, app, body, signal));
    }),
    handle(jobs.attach, async (call) => {
      const { params, query, signal } = call;
      const app = await findApp(deps, params.app, signal);
      await catchUp(deps, params.job, signal);
      checkShell(app, principalOf(call), typeOf(deps, app, params.job));
      const { hostId, jobId } = await findPlacement(deps, app.id, params.job, signal);
      const host = await deps.hosts.attach(hostId, jobId, query, signal);
      return (client) => joinSockets(client, host);
    }),
    handle(jobs.exec, async (call) => {
      const { params, query, signal } = call;
      const { job, type, command, ...options } = query;
      const app = await findApp(deps, params.app, signal);
      checkShell(app, principalOf(call));
      const target = execTarget(deps, app, { job, type });
      const asked = { ...options, command: await execCommand(deps, target, command, signal) };
      const host = await deps.hosts.exec(target.hostId, target.id, asked, signal);
      return (client) => joinSockets(client, host);
    }),
    handle(jobs.stop, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      await catchUp(deps, params.job, signal);
      await stopJob(deps, app, params.job, signal);
    }),
  ];
}

/**
 * What was written of the job a moment ago is known here after this. Its workload may have been made through another web
 * process; and mirrors keep no order among each other: that the workload is gone may be here before the status that
 * ended it, and a job must not look as if there had never been one. Nor as if it were of no type, where its template is late.
 */
async function catchUp({ cell, store }: Deps, id: string, signal: AbortSignal): Promise<void> {
  const isIt = (job: { id: string; workloadId: string }) => job.id === id || job.workloadId === id;
  const isDescribed = ({ workloadId, version }: { workloadId: string; version: string }) =>
    cell.templates.snapshot.entries.has(`${workloadId}/${version}`);
  const workload = cell.workloads.snapshot.entries.get(id)?.value;
  const placed = placedJobs(cell).filter(isIt);
  if (workload !== undefined && workload.count > 0) {
    if (isDescribed({ workloadId: id, version: workload.version })) return;
    // What a status is of stands in it.
  } else if (seenStatuses(cell, isIt).length > 0 || placed.some(isDescribed)) return;
  const { reads, revision } = await store.transact({ then: [{ get: cellKeys.workload(id) }] }, { signal });
  const entry = reads[0]?.[0];
  if (entry !== undefined) {
    await Promise.all([cell.workloads, cell.templates].map((mirror) => mirror.reached(entry.modRevision, { signal })));
  } else if (placed.length > 0) await cell.templates.reached(revision, { signal });
  const count = cell.workloads.snapshot.entries.get(id)?.value.count ?? 0;
  if (entry === undefined || count === 0) await cell.statuses.reached(revision, { signal });
}

function typeOf(deps: Deps, app: AppResource, id: string): string | undefined {
  return findJob(jobsOfApp(app.id, cellOf(deps.cell), { all: true, nowMs: deps.now() }), id)?.type;
}

/** It may end while its place is waited for, and be known as gone before it is known to have ended. */
async function findPlacement(deps: Deps, appId: string, id: string, signal: AbortSignal): Promise<Placement> {
  try {
    return await awaitPlacement(deps.cell, { appId, id, signal });
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    await catchUp(deps, id, signal);
    const placement = placementOf(deps.cell, appId, id);
    if (placement === undefined) throw error;
    return placement;
  }
}

/** What another web process wrote of the app's workloads a moment ago is in the mirror after this. */
async function catchUpWithApp({ store, cell }: Deps, appId: string, signal: AbortSignal): Promise<void> {
  const { entries } = await store.list(`${cellKeys.workloads}${appId}-`, { signal });
  const newest = Math.max(0, ...entries.map(({ modRevision }) => modRevision));
  await Promise.all([cell.workloads, cell.templates].map((mirror) => mirror.reached(newest, { signal })));
}

function noJob(app: AppResource, id: string): FlynnError {
  return new FlynnError('not_found', `${app.spec.name} has no job ${id}; list them with: flynn ps -a ${app.spec.name}`);
}

type Run = z.output<NonNullable<typeof jobs.run.body>>;

/** Of an app that has no live release: what was deployed did not come up, has not yet, or nothing was. */
async function noneLive(deps: Deps, app: AppResource, signal: AbortSignal): Promise<FlynnError> {
  const { name } = app.spec;
  // Each begins together with a change of its app.
  await deps.deployments.reached(app.revision, { signal });
  const newest = deps.deploymentsByApp.of(app.id).reduce<DeploymentResource | undefined>((last, one) => {
    return last === undefined || one.createdAt > last.createdAt ? one : last;
  }, undefined);
  const release = newest && (await deps.resources.find(releaseType, newest.spec.newReleaseId, { signal }));
  if (newest === undefined || release === undefined) {
    return new FlynnError('invalid', `${name} has no release yet: push code first`);
  }
  const version = `v${release.spec.version}`;
  const inIt = `"flynn run -r ${version} -a ${name} COMMAND" runs in it all the same`;
  return newest.status.state === 'failed'
    ? new FlynnError(
        'invalid',
        `nothing of ${name} is live: ${version} did not come up. "flynn deployment -a ${name}" says why; ${inIt}`,
      )
    : new FlynnError('invalid', `nothing of ${name} is live yet: ${version} is being deployed. Wait for it; ${inIt}`);
}

async function runOneOff(
  deps: Deps,
  app: AppResource,
  run: Run,
  { principal, signal }: { principal: Principal; signal: AbortSignal },
): Promise<Job> {
  const live = app.status.releaseId;
  const releaseId = run.releaseId ?? live;
  if (releaseId === undefined) throw await noneLive(deps, app, signal);
  const release = await findRelease(deps, app, releaseId, signal);
  const runnable = await runnableOf(deps, app, release, signal);
  if (runnable === undefined) {
    throw new FlynnError(
      'invalid',
      `release v${release.spec.version} of ${app.spec.name} has no image or slug: there is nothing to run in`,
    );
  }
  if (release.id !== live) {
    const before = live === undefined ? undefined : await contentOf(deps, live, signal);
    const announcing = before ?? { processes: {} };
    await checkDeployedLinks(deps, app, { next: release.spec, before, announcing, principal }, signal);
  }
  const workload = compileOneOff(runnable, { ...run, workloadId: `${app.id}-run-${shortId()}` });
  const started = { compare: [compareOf(app)], then: workloadChange(workload, evaluationContext(deps)) };
  await deps.resources.commit([started], { signal });
  return pendingJob(workload, deps.now());
}

/** Undefined where nobody can read it: then what another release links is judged anew, and runs. */
async function contentOf(
  { resources }: Pick<Deps, 'resources'>,
  releaseId: string,
  signal: AbortSignal,
): Promise<ReleaseResource['spec'] | undefined> {
  try {
    return (await resources.find(releaseType, releaseId, { signal }))?.spec;
  } catch (error) {
    if (hasCode(error, 'invalid')) return undefined;
    throw error;
  }
}

type BuildInput = z.output<NonNullable<typeof jobs.build.body>>;

/** A runner outside of the cluster has an operation built of what that begins with, and not of what it knows a digest of. */
async function checkOwnSource(
  deps: Deps,
  { operationId, sourceDigest }: BuildInput,
  signal: AbortSignal,
): Promise<void> {
  const operation = await findOperation(deps.store, operationId, { signal });
  if (operation?.spec.input.sourceDigest === sourceDigest) return;
  throw new FlynnError('denied', `operation ${operationId} is not to build ${sourceDigest}`);
}

/** Once per operation, however often it is asked for. */
async function startBuild(deps: Deps, app: AppResource, input: BuildInput, signal: AbortSignal): Promise<Job> {
  const operation = await findOperation(deps.store, input.operationId, { signal });
  if (operation !== undefined && operation.spec.appId !== app.id) {
    throw new FlynnError('not_found', `there is no operation ${input.operationId} of ${app.spec.name}`);
  }
  if (operation !== undefined) checkLosses(operation, input.losses ?? 0);
  const id = buildWorkloadId(app.id, input.operationId, input.losses);
  // A build that ended leaves no workload behind: the marker, gone with the operation, keeps it from being run again.
  const marker = buildMarker(input.operationId);
  const marked = await deps.store.get(marker, { signal });
  // What the app is built from by now, and whether it can be built, is no matter of what runs already.
  if (marked?.value === JSON.stringify(id)) return startedBuild(deps, app, input, signal);
  const { builder, process } = await findBuilder(deps, signal);
  const basis = await findBasis(deps, app, signal);
  const appEnv = basis?.spec.env ?? {};
  const runnerEnv = await buildEnvOf(deps, await labelsOfRunner(deps, input.operationId, signal), signal);
  // Named by the app, it counts before what the source looks like.
  const { dockerfile: path } = placeOfBuild(app, operation, input);
  const isOne = input.kind === 'dockerfile' && (appEnv['BUILDPACK_URL'] ?? '') === '';
  const { slugRunnerImage } = deps.settings;
  const workload = compileBuild(builder, process, {
    app: runnableApp(app),
    appEnv,
    runnerEnv,
    ...(isOne || path !== undefined ? { dockerfile: { slugRunnerImage, path } } : {}),
    operationId: input.operationId,
    ...(input.losses === undefined ? {} : { losses: input.losses }),
    sourceDigest: input.sourceDigest,
    commit: input.commit,
    meta: app.spec.meta,
  });
  const started = {
    compare: [{ key: marker, modRevision: marked?.modRevision ?? 0 }, compareOf(app)],
    then: [{ put: marker, value: JSON.stringify(id) }, ...workloadChange(workload, evaluationContext(deps))],
  };
  try {
    await deps.resources.commit([started], { signal });
    return pendingJob(workload, deps.now());
  } catch (error) {
    if (!hasCode(error, 'conflict') || isOvertaken(error, app)) throw error;
  }
  return startedBuild(deps, app, input, signal);
}

async function startedBuild(
  deps: Deps,
  app: AppResource,
  { operationId, losses }: BuildInput,
  signal: AbortSignal,
): Promise<Job> {
  const id = buildWorkloadId(app.id, operationId, losses);
  await catchUp(deps, id, signal);
  const job = findJob(jobsOfApp(app.id, cellOf(deps.cell), { all: true, nowMs: deps.now() }), id);
  if (job !== undefined) return job;
  throw new FlynnError('not_found', `the build of operation ${operationId} ran already, and its job is gone`);
}

/** `invalid` if the app is built from elsewhere by now; a controller of a version before may have left out what was told of it. */
function placeOfBuild(
  { spec }: AppResource,
  operation: OperationResource | undefined,
  { operationId, dockerfile }: BuildInput,
): BuildPlace {
  if (operation === undefined) return placeIn({ dockerfile });
  const place = placeIn(operation.spec.input);
  if (dockerfile !== undefined && dockerfile !== place.dockerfile) {
    throw new FlynnError(
      'invalid',
      `operation ${operationId} builds ${place.dockerfile ?? 'no Dockerfile by its name'}, not ${dockerfile}`,
    );
  }
  if (isSamePlace(place, placeOf(spec.meta))) return place;
  throw new FlynnError(
    'invalid',
    `what ${spec.name} is built from was set anew since this build was asked for ("flynn build -a ${spec.name}" tells what it is): push again; if it follows a repository: flynn source poll --again -a ${spec.name}`,
  );
}

export async function findBuilder(
  deps: Deps,
  signal: AbortSignal,
): Promise<{ builder: Runnable; process: ReleaseResource['spec']['processes'][string] }> {
  const app = await findApp(deps, builderApp, signal);
  if (!app.spec.isSystem || app.status.releaseId === undefined) {
    throw new FlynnError('unavailable', `the system app ${builderApp} is not deployed: builds cannot run`);
  }
  const release = await deps.resources.get(releaseType, app.status.releaseId, { signal });
  const runnable = await runnableOf(deps, app, release, signal);
  if (runnable === undefined) throw new FlynnError('unavailable', `${builderApp} has no image: builds cannot run`);
  const process = release.spec.processes['build'];
  if (process !== undefined) return { builder: runnable, process };
  throw new FlynnError(
    'unavailable',
    `the live release of ${builderApp} has no process type "build": builds cannot run`,
  );
}

export function pendingJob({ id, template }: CompiledWorkload, nowMs: number): Job {
  return {
    id,
    workloadId: id,
    appId: template.meta['flynn.app'] ?? '',
    releaseId: template.meta['flynn.release'] ?? '',
    type: template.meta['flynn.type'] ?? '',
    state: 'pending',
    restarts: 0,
    createdAt: iso(nowMs),
  };
}

/**
 * A one-off job's workload goes, and the job with it; one of a formation is ended on its host, and the formation starts
 * another.
 */
async function stopJob(deps: Deps, app: AppResource, id: string, signal: AbortSignal): Promise<void> {
  const { cell } = deps;
  const job = findJob(jobsOfApp(app.id, cellOf(cell), { all: true, nowMs: deps.now() }), id);
  if (job === undefined) throw noJob(app, id);
  const workload = cell.workloads.snapshot.entries.get(job.workloadId)?.value;
  if (workload?.kind === 'ephemeral') {
    const build = buildOperationOf(workload.id);
    // What somebody ends is not begun again as if it were lost. Of what is lost already its runner cleans up so.
    const told =
      build === undefined || job.state === 'lost'
        ? []
        : [{ put: buildStopMarker(build), value: JSON.stringify(workload.id) }];
    await deps.store.transact(
      { then: [...told, ...workloadRemoval(workload.id, evaluationContext(deps))] },
      { signal },
    );
    return;
  }
  if (workload === undefined) return;
  // By its workload's id another of its jobs would be found.
  const placement = job.hostId === undefined ? undefined : placementOf(cell, app.id, job.id);
  if (placement === undefined) {
    throw new FlynnError('conflict', `job ${id} waits for a place and is on no host: scale ${job.type} down instead`);
  }
  await deps.hosts.stop(placement.hostId, placement.jobId, signal);
}
