/** Deployments as they are asked for and followed. The first jobs of the new release start with the very transaction. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { compareOf } from '@flynn/resource/record';
import { writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { deployments } from './api.ts';
import { statusesOfApp } from './cell-view.ts';
import { appIdOf, compileWorkload, workloadIdOf } from './compile.ts';
import type { Runnable } from './compile.ts';
import { evaluationContext, findApp, findLiveApp } from './deps.ts';
import type { Deps } from './deps.ts';
import { formationPiece } from './formations.ts';
import { findRelease, runnableOf } from './releases.ts';
import { appType, deploymentType, formationType, ownedBy, releaseType } from './resources.ts';
import type { AppResource, DeploymentResource, ReleaseResource } from './resources.ts';
import { firstCounts, targetCounts } from './rollout.ts';
import { pageOf } from './paging.ts';
import { progressOf } from './deployment-progress.ts';
import { viewDeployment } from './views.ts';

const maxAttempts = 8;

export function deploymentHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  return [
    handle(deployments.create, async ({ params, body, signal }) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          const app = await findLiveApp(deps, params.app, signal);
          const deployment = await deploy(deps, app, await findRelease(deps, app, body.releaseId, signal), signal);
          return viewDeployment(deployment, progressOf(deployment, deps.cell));
        } catch (error) {
          const isOvertaken = hasCode(error, 'conflict') && error.detail['key'] !== undefined;
          if (!isOvertaken || attempt >= maxAttempts) throw error;
        }
      }
    }),
    handle(deployments.list, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const all = await resources.list(deploymentType, { owner: ownedBy(app.id), signal });
      const sorted = all.toSorted((a, b) =>
        a.createdAt === b.createdAt ? (a.id < b.id ? 1 : -1) : a.createdAt < b.createdAt ? 1 : -1,
      );
      return pageOf(sorted, query, ({ id }) => id).map((deployment) =>
        viewDeployment(deployment, progressOf(deployment, deps.cell)),
      );
    }),
    handle(deployments.get, async ({ params, signal }) => {
      const deployment = await resources.get(deploymentType, params.deployment, { signal });
      return viewDeployment(deployment, progressOf(deployment, deps.cell));
    }),
    handle(deployments.events, async ({ params, signal }) =>
      follow(deps, await resources.get(deploymentType, params.deployment, { signal }), signal),
    ),
  ];
}

async function deploy(
  deps: Deps,
  app: AppResource,
  release: ReleaseResource,
  signal: AbortSignal,
): Promise<DeploymentResource> {
  const { resources } = deps;
  if (app.status.deploymentId !== undefined) {
    throw new FlynnError(
      'conflict',
      `a deployment of ${app.spec.name} is under way: wait for it to end, see flynn deployment`,
      {
        detail: { deploymentId: app.status.deploymentId },
      },
    );
  }
  const oldId = app.status.releaseId;
  const [runnable, prepared, old, oldFormation] = await Promise.all([
    runnableOf(deps, app, release, signal),
    resources.find(formationType, release.id, { signal }),
    oldId === undefined || oldId === release.id ? undefined : resources.get(releaseType, oldId, { signal }),
    oldId === undefined ? undefined : resources.find(formationType, oldId, { signal }),
  ]);
  if (oldId === release.id) return alreadyLive(deps, app, release, oldFormation?.spec.processes ?? {}, signal);
  const types = Object.keys(release.spec.processes);
  const counts = targetCounts({
    types,
    prepared: prepared?.spec.processes,
    old:
      old === undefined
        ? undefined
        : { types: Object.keys(old.spec.processes), counts: oldFormation?.spec.processes ?? {} },
  });
  const formation = formationPiece(deps, { app, release, before: prepared, processes: counts });
  const deployment = resources.draft(deploymentType, {
    id: deps.newId(),
    owner: ownedBy(app.id),
    spec: {
      appId: app.id,
      ...(oldId === undefined ? {} : { oldReleaseId: oldId }),
      newReleaseId: release.id,
      counts,
      oldCounts: oldFormation?.spec.processes ?? {},
      knownJobs: statusesOfApp(deps.cell, app.id)
        .filter((status) => status.meta['flynn.release'] === release.id)
        .map((status) => status.id),
      timeoutMs: app.spec.deployTimeoutMs,
    },
  });
  const locked: AppResource = { ...app, status: { ...app.status, deploymentId: deployment.resource.id } };
  const pieces = [
    writePiece(appType, app, locked),
    deployment.piece,
    formation.piece,
    ...startPieces(deps, { app, release, old, runnable, counts }),
  ];
  const revision = await resources.commit(pieces, { signal });
  return { ...deployment.resource, revision };
}

/** The first jobs of the new release, beside those of the old. */
function startPieces(
  deps: Deps,
  input: {
    app: AppResource;
    release: ReleaseResource;
    old: ReleaseResource | undefined;
    runnable: Runnable | undefined;
    counts: Readonly<Record<string, number>>;
  },
): Piece[] {
  const { app, release, old, runnable, counts } = input;
  const isReplaced = (type: string) => runnable !== undefined && isInPlace(app.id, runnable, old, type);
  const wanted = Object.entries(counts).filter(([type, count]) => count > 0 || isReplaced(type));
  if (wanted.length === 0) return [];
  if (runnable === undefined) {
    throw new FlynnError(
      'invalid',
      `release v${release.spec.version} of ${app.spec.name} has no image or slug: nothing can run`,
    );
  }
  const first = firstCounts(wanted.map(([type, target]) => ({ type, target, isInPlace: isReplaced(type) })));
  return wanted.map(([type]): Piece => {
    const process = runnable.release.processes[type];
    if (process === undefined) return {};
    return {
      then: workloadChange(compileWorkload(runnable, type, process, first[type] ?? 0), evaluationContext(deps)),
    };
  });
}

/** Whether both releases run the type in the same workload. */
function isInPlace(
  appId: string,
  runnable: Pick<Runnable, 'release'>,
  old: ReleaseResource | undefined,
  type: string,
): boolean {
  if (old?.spec.processes[type] === undefined) return false;
  const before = { id: old.id, env: {}, processes: old.spec.processes };
  return workloadIdOf(appId, before, type) === workloadIdOf(appId, runnable.release, type);
}

/** Deploying what is live is done already. */
async function alreadyLive(
  deps: Deps,
  app: AppResource,
  release: ReleaseResource,
  counts: Record<string, number>,
  signal: AbortSignal,
): Promise<DeploymentResource> {
  const at = new Date(deps.now()).toISOString();
  return deps.resources.create(
    deploymentType,
    {
      id: deps.newId(),
      owner: ownedBy(app.id),
      spec: {
        appId: app.id,
        oldReleaseId: release.id,
        newReleaseId: release.id,
        counts,
        oldCounts: counts,
        knownJobs: [],
        timeoutMs: app.spec.deployTimeoutMs,
      },
      status: { state: 'complete', progress: {}, endedAt: at },
    },
    { also: () => ({ compare: [compareOf(app)] }), signal },
  );
}

/** The deployment at each change, up to and with its end. */
async function* follow(deps: Deps, asked: DeploymentResource, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const { id, spec } = asked;
  await deps.deployments.reached(asked.revision, { signal });
  let told = '';
  for (;;) {
    const change = Promise.withResolvers<void>();
    const stops = [
      deps.deployments.onChange(({ key }) => (key === id ? change.resolve() : undefined)),
      deps.cell.statuses.onChange(({ before, after }) =>
        appIdOf((after ?? before)?.workloadId ?? '') === spec.appId ? change.resolve() : undefined,
      ),
      deps.cell.hosts.onChange(() => change.resolve()),
    ];
    const onAbort = () => change.resolve();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const deployment = deps.deployments.snapshot.entries.get(id)?.value;
      if (signal.aborted || deployment === undefined) return;
      const view = viewDeployment(deployment, progressOf(deployment, deps.cell));
      const text = JSON.stringify(view);
      if (text !== told) yield { event: 'deployment', data: view };
      told = text;
      if (view.state === 'complete' || view.state === 'failed') return;
      await change.promise;
    } finally {
      for (const stop of stops) stop();
      signal.removeEventListener('abort', onAbort);
    }
  }
}
