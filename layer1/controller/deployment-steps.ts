/** Carries deployments out: reads the world, asks rollout.ts for the next step, takes it. Level-triggered, so restarts are harmless. */
import { messageOf } from '@flynn/kit/errors';
import { removePiece, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import type { Again } from '@flynn/resource/reconciler';
import { workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import { cellKeys, workloadSchema } from '@flynn/scheduler/cell';
import type { JobStatus, Workload } from '@flynn/scheduler/cell';
import { decodeJson } from '@flynn/store/codec';
import type { Compare } from '@flynn/store/store';
import { reasonsOf, statusesOfApp, takesJobs, templateFactsSchema, valuesOf } from './cell-view.ts';
import { compileWorkload, workloadIdOf } from './compile.ts';
import type { Runnable } from './compile.ts';
import { findFailed, findTrouble, progressOf, upCount } from './deployment-progress.ts';
import { evaluationContext } from './deps.ts';
import type { Deps } from './deps.ts';
import { runnableOf } from './releases.ts';
import { appType, deploymentType, formationType, releaseType } from './resources.ts';
import type { AppResource, DeploymentResource, FormationResource } from './resources.ts';
import { nextStep } from './rollout.ts';
import type { RolloutStep, TypeState } from './rollout.ts';

const failureLines = 20;

type Side = {
  runnable: Runnable | undefined;
  types: readonly string[];
  releaseId: string;
  formation: FormationResource | undefined;
};

/** Everything a step looks at, read at its beginning. */
type World = {
  app: AppResource;
  deployment: DeploymentResource;
  next: Side;
  old: Side | undefined;
  workloads: ReadonlyMap<string, Workload>;
  /** Of workloads that both releases have: which one’s template each has now. */
  releaseIds: ReadonlyMap<string, string | undefined>;
};

/** One look at a deployment. `epoch` keeps a worker that lost its seat from writing. */
export async function stepDeployment(
  deps: Deps,
  id: string,
  options: { signal: AbortSignal; epoch?: Compare },
): Promise<void | Again> {
  const { signal } = options;
  const deployment = await deps.resources.find(deploymentType, id, { signal });
  if (deployment === undefined || deployment.status.state === 'complete' || deployment.status.state === 'failed')
    return;
  const app = await deps.resources.find(appType, deployment.spec.appId, { signal });
  // The app's deletion takes the deployment with it.
  if (app === undefined || app.deletingSince !== undefined) return;
  const world = await readWorld(deps, app, deployment, signal);
  const deadlineMs = Date.parse(deployment.createdAt) + deployment.spec.timeoutMs;
  const step = nextStep({
    types: typeStates(deps, world),
    nowMs: deps.now(),
    deadlineMs,
    timeoutMs: deployment.spec.timeoutMs,
  });
  if (step.do === 'wait') return { againInMs: Math.max(1, step.untilMs - deps.now()) };
  const pieces = await piecesOf(deps, world, step, signal);
  await deps.resources.commit([...pieces, options.epoch === undefined ? {} : { compare: [options.epoch] }], { signal });
  deps.log.info(
    { app: app.spec.name, deployment: id, step: step.do, ...(step.do === 'fail' ? { why: step.error } : {}) },
    'deployment step',
  );
  // Nothing else may change before the next batch is looked at.
  if (step.do === 'scale') return { againInMs: 1 };
}

async function readWorld(
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
    return { runnable, types: Object.keys(release.spec.processes), releaseId, formation };
  };
  const [next, old] = await Promise.all([
    side(newReleaseId),
    oldReleaseId === undefined ? undefined : side(oldReleaseId),
  ]);
  const ids = [...new Set([...workloadIds(app.id, next).values(), ...workloadIds(app.id, old).values()])];
  const { reads } = await deps.store.transact({ then: ids.map((id) => ({ get: cellKeys.workload(id) })) }, { signal });
  const workloads = reads.flat().map((entry) => decodeJson(workloadSchema, entry.value, entry.key));
  const oldIds = new Set(workloadIds(app.id, old).values());
  const nextIds = new Set(workloadIds(app.id, next).values());
  return {
    app,
    deployment,
    next,
    old,
    workloads: new Map(workloads.map((workload) => [workload.id, workload])),
    releaseIds: await releaseIdsOf(
      deps,
      workloads.filter(({ id }) => oldIds.has(id) && nextIds.has(id)),
      signal,
    ),
  };
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
function workloadIds(appId: string, side: Side | undefined): Map<string, string> {
  const runnable = side?.runnable;
  if (side === undefined || runnable === undefined) return new Map();
  return new Map(side.types.map((type) => [type, workloadIdOf(appId, runnable.release, type)]));
}

function typeStates(deps: Deps, world: World): TypeState[] {
  const { app, deployment, next, old, workloads, releaseIds } = world;
  const { cell } = deps;
  const reasons = reasonsOf(cell);
  const statuses = statusesOfApp(cell, app.id);
  const failed = findFailed(deployment, statuses);
  const nextIds = workloadIds(app.id, next);
  const oldIds = workloadIds(app.id, old);
  const hostCount = valuesOf(cell.hosts).filter((host) => takesJobs(cell, host)).length;
  return [...new Set([...nextIds.keys(), ...oldIds.keys()])].map((type): TypeState => {
    const nextId = nextIds.get(type);
    const oldId = oldIds.get(type);
    const workload = nextId === undefined ? undefined : workloads.get(nextId);
    // In place, until the new release is put there, the workload is still the old one's.
    const isInPlace = nextId !== undefined && nextId === oldId;
    const isNext = !isInPlace || releaseIds.get(nextId) === next.releaseId;
    const newWanted = isNext ? (workload?.count ?? 0) : 0;
    return {
      type,
      target: deployment.spec.counts[type] ?? 0,
      original: deployment.spec.oldCounts[type] ?? 0,
      newWanted,
      oldWanted: oldId === undefined ? 0 : (workloads.get(oldId)?.count ?? 0),
      newUp: upCount(statuses, next.releaseId, type),
      newExpected: workload?.kind === 'omni' && newWanted > 0 ? Math.max(1, hostCount) : newWanted,
      isInPlace,
      failed: failed !== undefined && failed.meta['flynn.type'] === type ? { ...failed, type } : undefined,
      blocked: findTrouble(statuses, next.releaseId, type) ?? (nextId === undefined ? undefined : reasons.get(nextId)),
    };
  });
}

async function piecesOf(
  deps: Deps,
  world: World,
  step: Exclude<RolloutStep, { do: 'wait' }>,
  signal: AbortSignal,
): Promise<Piece[]> {
  if (step.do === 'complete') return completePieces(deps, world);
  if (step.do === 'fail') {
    const failed = findFailed(world.deployment, statusesOfApp(deps.cell, world.app.id));
    return failPieces(deps, world, step, failed, failed === undefined ? [] : await lastLines(deps, failed, signal));
  }
  return [
    ...countPieces(deps, world, world.next, step.newCounts),
    ...countPieces(deps, world, world.old, step.oldCounts),
  ];
}

/** Sets counts that are not so already; a type both releases have in one workload is the new one's. */
function countPieces(
  deps: Deps,
  world: World,
  side: Side | undefined,
  counts: Readonly<Record<string, number>>,
): Piece[] {
  const runnable = side?.runnable;
  if (side === undefined || runnable === undefined) return [];
  const shared = side === world.old ? new Set(workloadIds(world.app.id, world.next).values()) : new Set<string>();
  return [...workloadIds(world.app.id, side)].flatMap(([type, id]): Piece[] => {
    const count = counts[type];
    const process = runnable.release.processes[type];
    if (count === undefined || process === undefined || shared.has(id)) return [];
    if ((world.workloads.get(id)?.count ?? 0) === count) return [];
    return [{ then: workloadChange(compileWorkload(runnable, type, process, count), evaluationContext(deps)) }];
  });
}

/** The new release is live, and the old one’s workloads go. */
function completePieces(deps: Deps, world: World): Piece[] {
  const { app, deployment, next, old } = world;
  const kept = new Set(workloadIds(app.id, next).values());
  return [
    ...endPieces(deps, world, { state: 'complete' }, { releaseId: next.releaseId }),
    ...removals(deps, world, old, kept),
    ...(old?.formation === undefined || old.releaseId === deployment.spec.newReleaseId
      ? []
      : [removePiece(formationType, old.formation)]),
  ];
}

/** The old release is as it was, the new one’s workloads go. */
function failPieces(
  deps: Deps,
  world: World,
  step: Extract<RolloutStep, { do: 'fail' }>,
  failed: JobStatus | undefined,
  lines: string[],
): Piece[] {
  const { app, deployment, next, old } = world;
  const oldIds = workloadIds(app.id, old);
  const nextIds = new Set(workloadIds(app.id, next).values());
  const restored = [...oldIds].flatMap(([type, id]): Piece[] => {
    const process = old?.runnable?.release.processes[type];
    const count = deployment.spec.oldCounts[type] ?? 0;
    const isChanged = nextIds.has(id) || (world.workloads.get(id)?.count ?? 0) !== count;
    if (old?.runnable === undefined || process === undefined || !isChanged) return [];
    return [{ then: workloadChange(compileWorkload(old.runnable, type, process, count), evaluationContext(deps)) }];
  });
  const failedJob =
    failed === undefined
      ? undefined
      : {
          id: failed.id,
          type: failed.meta['flynn.type'] ?? '',
          ...(failed.exitCode === undefined ? {} : { exitCode: failed.exitCode }),
          lines,
        };
  return [
    ...endPieces(
      deps,
      world,
      { state: 'failed', error: step.error, ...(failedJob === undefined ? {} : { failedJob }) },
      {},
    ),
    ...removals(deps, world, next, new Set(oldIds.values())),
    ...restored,
    ...(next.formation === undefined ? [] : [removePiece(formationType, next.formation)]),
  ];
}

function endPieces(
  deps: Deps,
  { app, deployment }: World,
  outcome: Pick<DeploymentResource['status'], 'state' | 'error' | 'failedJob'>,
  live: { releaseId?: string },
): Piece[] {
  const { deploymentId: _through, ...status } = app.status;
  const progress = progressOf(deployment, deps.cell);
  const updatedAt = new Date(deps.now()).toISOString();
  return [
    writePiece(appType, app, { ...app, updatedAt, status: { ...status, ...live } }),
    writePiece(deploymentType, deployment, {
      ...deployment,
      updatedAt,
      status: {
        ...outcome,
        progress: outcome.state === 'complete' ? withoutOld(progress) : progress,
        endedAt: updatedAt,
      },
    }),
  ];
}

/** Old jobs may still be draining; as far as the deployment goes they are gone. */
function withoutOld(progress: DeploymentResource['status']['progress']): DeploymentResource['status']['progress'] {
  return Object.fromEntries(Object.entries(progress).map(([type, counts]) => [type, { ...counts, old: 0 }]));
}

function removals(deps: Deps, world: World, side: Side | undefined, kept: ReadonlySet<string>): Piece[] {
  return [...workloadIds(world.app.id, side).values()]
    .filter((id) => !kept.has(id) && world.workloads.has(id))
    .map((id) => ({ then: workloadRemoval(id, evaluationContext(deps)) }));
}

/** What the failed job said last. The deployment fails with or without it. */
async function lastLines(deps: Deps, failed: JobStatus, signal: AbortSignal): Promise<string[]> {
  try {
    return await deps.hosts.lastLines(failed.hostId, failed.id, failureLines, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return [`(its log could not be read: ${messageOf(error)})`];
  }
}
