/** What a step of a deployment writes, in one transaction. */
import { messageOf } from '@flynn/kit/errors';
import { removePiece, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import type { JobStatus } from '@flynn/scheduler/cell';
import { workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { compileWorkload } from '../processes/compile.ts';
import { changedStatus } from './controls.ts';
import { progressOf } from './progress.ts';
import { sharesPieces } from './shares.ts';
import { holdsShares } from './strategies.ts';
import { taskId, taskPiece } from './tasks.ts';
import { postdeployLine, taskJobId, workloadIds } from './world.ts';
import type { Side, World } from './world.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { appType, deploymentType, formationType } from '../resources.ts';
import type { DeploymentResource } from '../resources.ts';
import type { RolloutStep } from './rollout.ts';

const failureLines = 20;

type Status = DeploymentResource['status'];

export async function piecesOf(
  deps: Deps,
  world: World,
  step: Exclude<RolloutStep, { do: 'wait' }>,
  signal: AbortSignal,
): Promise<Piece[]> {
  const { deployment, next, old } = world;
  const { status } = deployment;
  switch (step.do) {
    case 'scale':
      return [
        statusPiece(deps, world, { ...status, state: 'running' }),
        ...countPieces(deps, world, next, step.newCounts),
        ...countPieces(deps, world, old, step.oldCounts),
        ...(await leavingPieces(deps, world, signal)),
      ];
    case 'hold':
      return [statusPiece(deps, world, { ...status, state: 'canary', heldSince: at(deps) })];
    case 'promote':
      return [statusPiece(deps, world, changedStatus(status, 'promote', { at: at(deps) }))];
    case 'begin':
      return [statusPiece(deps, world, { ...status, state: 'running' })];
    case 'switch': {
      const postdeploy = postdeployOf(deps, world);
      return [
        appPiece(deps, world, { releaseId: next.releaseId }),
        statusPiece(deps, world, { ...status, ...postdeploy.status, state: 'finishing' }),
        ...oldRemovals(deps, world),
        ...postdeploy.pieces,
        ...(await gonePieces(deps, world, 'old', signal)),
      ];
    }
    case 'complete':
      return [
        appPiece(deps, world, { releaseId: next.releaseId, isOver: true }),
        endPiece(deps, world, {
          ...status,
          state: 'complete',
          ...(step.warning === undefined ? {} : { warning: step.warning }),
        }),
        // They went with the switch, if there was one: what is there since then was written down for later.
        ...(status.state === 'finishing'
          ? []
          : [...oldRemovals(deps, world), ...(await gonePieces(deps, world, 'old', signal))]),
        ...taskRemoval(deps, world),
      ];
    case 'roll_back':
      return [
        statusPiece(deps, world, { ...status, ...(await failureOf(deps, world, step, signal)), state: 'rolling_back' }),
        ...restorations(deps, world),
      ];
    case 'fail': {
      const known = status.state === 'rolling_back' ? {} : await failureOf(deps, world, step, signal);
      return [
        appPiece(deps, world, { isOver: true }),
        endPiece(deps, world, { ...status, ...known, state: 'failed' }),
        ...removals(deps, world, next, new Set(workloadIds(world.app.id, old).values())),
        ...taskRemoval(deps, world),
        ...restorations(deps, world),
        ...(next.formation === undefined ? [] : [removePiece(formationType, next.formation)]),
        ...(await gonePieces(deps, world, 'next', signal)),
      ];
    }
    default:
      return step satisfies never;
  }
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
  const oldIds = new Set(workloadIds(world.app.id, world.old).values());
  const isShared = (id: string) => side === world.old && world.releaseIds.has(id);
  return [...workloadIds(world.app.id, side)].flatMap(([type, id]): Piece[] => {
    const count = counts[type];
    const process = runnable.release.processes[type];
    if (count === undefined || process === undefined || isShared(id)) return [];
    const isSwitched = side === world.old || !oldIds.has(id) || world.releaseIds.get(id) === side.releaseId;
    if (isSwitched && (world.workloads.get(id)?.count ?? 0) === count) return [];
    return [{ then: workloadChange(compileWorkload(runnable, type, process, count), evaluationContext(deps)) }];
  });
}

function postdeployOf(deps: Deps, world: World): { status: Partial<Status>; pieces: Piece[] } {
  const { app, deployment, next } = world;
  const line = postdeployLine(world);
  if (line === undefined || next.runnable === undefined) return { status: {}, pieces: [] };
  const id = taskId(app.id, 'postdeploy', deployment.id);
  const piece = taskPiece(deps, next.runnable, { id, type: 'postdeploy', line });
  return { status: { postdeployJobId: id }, pieces: [piece] };
}

/** What still runs, or would, once its deployment has ended. */
function taskRemoval(deps: Deps, { deployment, task }: World): Piece[] {
  const jobId = taskJobId(deployment);
  const isThrough = task?.is !== 'waiting' && task?.is !== 'running';
  if (jobId === undefined || isThrough) return [];
  return [{ then: workloadRemoval(jobId, evaluationContext(deps)) }];
}

/** While a canary waits for people the weights are theirs; from then on the old release leaves. */
async function leavingPieces(deps: Deps, { app, deployment, old }: World, signal: AbortSignal): Promise<Piece[]> {
  const isWaiting = holdsShares(deployment.spec.rollout) && deployment.status.isPromoted !== true;
  if (old === undefined || isWaiting) return [];
  return sharesPieces(deps, app.id, { what: 'leaving', releaseId: old.releaseId }, signal);
}

/** One of the two stays. */
async function gonePieces(
  deps: Deps,
  { app, next, old }: World,
  gone: 'old' | 'next',
  signal: AbortSignal,
): Promise<Piece[]> {
  const [going, live] = gone === 'old' ? [old, next] : [next, old];
  if (going === undefined || going.releaseId === live?.releaseId) return [];
  return sharesPieces(deps, app.id, { what: 'gone', releaseId: going.releaseId, live: live?.releaseId }, signal);
}

/** The old one’s workloads go, and its counts. */
function oldRemovals(deps: Deps, world: World): Piece[] {
  const { app, deployment, next, old } = world;
  const kept = new Set(workloadIds(app.id, next).values());
  const isOther = old !== undefined && old.releaseId !== deployment.spec.newReleaseId;
  return [
    ...removals(deps, world, old, kept),
    ...(isOther && old.formation !== undefined ? [removePiece(formationType, old.formation)] : []),
  ];
}

/** The old release as it was. */
function restorations(deps: Deps, { app, deployment, next, old, workloads }: World): Piece[] {
  const nextIds = new Set(workloadIds(app.id, next).values());
  return [...workloadIds(app.id, old)].flatMap(([type, id]): Piece[] => {
    const process = old?.runnable?.release.processes[type];
    const count = deployment.spec.oldCounts[type] ?? 0;
    const isChanged = nextIds.has(id) || (workloads.get(id)?.count ?? 0) !== count;
    if (old?.runnable === undefined || process === undefined || !isChanged) return [];
    return [{ then: workloadChange(compileWorkload(old.runnable, type, process, count), evaluationContext(deps)) }];
  });
}

function removals(deps: Deps, world: World, side: Side | undefined, kept: ReadonlySet<string>): Piece[] {
  return [...workloadIds(world.app.id, side).values()]
    .filter((id) => !kept.has(id) && world.workloads.has(id))
    .map((id) => ({ then: workloadRemoval(id, evaluationContext(deps)) }));
}

function appPiece(deps: Deps, { app }: World, change: { releaseId?: string; isOver?: boolean }): Piece {
  const { isOver = false, ...live } = change;
  const { deploymentId, ...status } = app.status;
  const underWay = isOver || deploymentId === undefined ? {} : { deploymentId };
  return writePiece(appType, app, { ...app, updatedAt: at(deps), status: { ...status, ...underWay, ...live } });
}

function statusPiece(deps: Deps, { deployment }: World, status: Status): Piece {
  const updatedAt = at(deps);
  return writePiece(deploymentType, deployment, {
    ...deployment,
    updatedAt,
    status: { ...status, steppedAt: updatedAt },
  });
}

function endPiece(deps: Deps, world: World, status: Status): Piece {
  const progress = progressOf(world.deployment, deps.cell);
  return statusPiece(deps, world, { ...status, progress, endedAt: at(deps) });
}

function at(deps: Deps): string {
  return new Date(deps.now()).toISOString();
}

/** Why, and which job’s end it was, with what it said last. */
async function failureOf(
  deps: Deps,
  { app }: World,
  { error, job }: Extract<RolloutStep, { do: 'fail' | 'roll_back' }>,
  signal: AbortSignal,
): Promise<Pick<Status, 'error' | 'failedJob'>> {
  const failed = statusesOfApp(deps.cell, app.id).find(({ id }) => id === job?.id);
  if (failed === undefined) return { error };
  // It may run again by now: then it is how its run before ended that is meant.
  const exitCode = failed.exitCode ?? failed.lastExitCode;
  return {
    error,
    failedJob: {
      id: failed.id,
      type: failed.meta['flynn.type'] ?? '',
      ...(exitCode === undefined ? {} : { exitCode }),
      lines: await lastLines(deps, failed, signal),
    },
  };
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
