/** Formations: how many jobs of each type. The count, the workload and the evaluation are written in one transaction. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { compareOf } from '@flynn/resource/record';
import { mergePieces, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { formations } from '../api.ts';
import { checkRanges } from '../autoscale/settings.ts';
import { compileWorkload } from '../processes/compile.ts';
import { checkCounts, keptCounts } from './counts.ts';
import type { Counts } from './counts.ts';
import { holdsCounts } from '../deployments/phases.ts';
import { evaluationContext, findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import type { Formation } from '../model.ts';
import { findRelease, runnableOf } from '../releases/releases.ts';
import { deploymentType, formationType, ownedBy, releaseType } from '../resources.ts';
import type { AppResource, FormationResource, ReleaseResource } from '../resources.ts';
import { viewFormation } from '../views.ts';

const maxAttempts = 8;

export function formationHandlers(deps: Deps): Handler[] {
  return [
    handle(formations.get, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const release = await findRelease(deps, app, params.release, signal);
      const formation = await deps.resources.find(formationType, release.id, { signal });
      return formation === undefined ? emptyFormation(release) : viewFormation(formation);
    }),
    handle(formations.put, ({ params, body, signal }) =>
      scaleFormation(deps, { ...params, counts: body.processes }, signal),
    ),
  ];
}

/** Types left out stay as they are. */
export async function scaleFormation(deps: Deps, scaling: Scaling, signal: AbortSignal): Promise<Formation> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await scaleOnce(deps, scaling, signal);
    } catch (error) {
      const isOvertaken = hasCode(error, 'conflict') && error.detail['key'] !== undefined;
      if (!isOvertaken || attempt >= maxAttempts) throw error;
    }
  }
}

/** A release nobody scaled wants nothing. */
function emptyFormation(release: ReleaseResource): Formation {
  const { id, spec, createdAt } = release;
  const processes = Object.fromEntries(Object.keys(spec.processes).map((type) => [type, 0]));
  return { appId: spec.appId, releaseId: id, processes, createdAt, updatedAt: createdAt };
}

type Scaling = {
  app: string;
  release: string;
  counts: Readonly<Record<string, number>>;
  /** `conflict` if the formation is at another. */
  revision?: number;
  /** Written with it, by what scales by itself: that keeps to a range of its own. */
  also?: readonly Piece[];
  /** Of types that are scaled by themselves: what is outside of their range is brought into it soon. */
  mayLeaveRange?: boolean;
};

/** `conflict` if anything of it was changed meanwhile. */
export async function scaleOnce(deps: Deps, scaling: Scaling, signal: AbortSignal): Promise<Formation> {
  const app = await findLiveApp(deps, scaling.app, signal);
  const release = await findRelease(deps, app, scaling.release, signal);
  const before = await deps.resources.find(formationType, release.id, { signal });
  checkCounts(app, release, scaling.counts, await countsToKeep(deps, app, { release, before }, signal));
  // Once the new release is live nothing else changes its counts, though jobs of the old one are still ending.
  const { deploymentId } = app.status;
  const deployment = deploymentId && (await deps.resources.find(deploymentType, deploymentId, { signal }));
  if (deployment && holdsCounts(deployment.status)) {
    throw new FlynnError('conflict', `a deployment of ${app.spec.name} is under way: scale once it is through`);
  }
  if (scaling.revision !== undefined && scaling.revision !== before?.revision) {
    const what = `the formation of ${app.spec.name} v${release.spec.version}`;
    throw new FlynnError('conflict', `${what} was changed meanwhile: read it again and repeat the change`);
  }
  const processes = { ...(before === undefined ? {} : before.spec.processes), ...scaling.counts };
  const changes = changedCounts(before?.spec.processes, scaling.counts);
  const changed = Object.keys(changes);
  if (before !== undefined && changed.length === 0) return viewFormation(before);
  const isLive = app.status.releaseId === release.id;
  const { also, mayLeaveRange = also !== undefined } = scaling;
  if (isLive && !mayLeaveRange) await checkRanges(deps, app, changes, signal);
  const { formation, piece } = formationPiece(deps, { app, release, before, processes });
  // What is not live is written down for its deployment, and starts with it.
  const started = isLive ? await workloadPieces(deps, { app, release, processes, types: changed, signal }) : [];
  const compare = [compareOf(app), compareOf(release)];
  await deps.resources.commit([piece, { compare }, ...started, ...(also ?? [])], { signal });
  return viewFormation(formation);
}

/** Those of the wanted counts that are others by now. */
export function changedCounts(before: Counts | undefined, wanted: Counts): Counts {
  return Object.fromEntries(Object.entries(wanted).filter(([type, count]) => before?.[type] !== count));
}

/** Of types with a volume: what the release has already, or what is live and it takes the place of. */
export async function countsToKeep(
  { resources }: Pick<Deps, 'resources'>,
  app: AppResource,
  { release, before }: { release: ReleaseResource; before: FormationResource | undefined },
  signal: AbortSignal,
): Promise<Counts> {
  const own = keptCounts(release.spec.processes, before?.spec.processes);
  const liveId = app.status.releaseId;
  if (liveId === undefined || liveId === release.id) return own;
  const [live, formation] = await Promise.all([
    resources.find(releaseType, liveId, { signal }),
    resources.find(formationType, liveId, { signal }),
  ]);
  return { ...own, ...keptCounts(live?.spec.processes ?? {}, formation?.spec.processes) };
}

/** The formation with these counts, and what writes it over the one there was. */
export function formationPiece(
  deps: Pick<Deps, 'resources' | 'now'>,
  input: {
    app: AppResource;
    release: ReleaseResource;
    before: FormationResource | undefined;
    processes: Record<string, number>;
  },
): { formation: FormationResource; piece: Piece } {
  const { app, release, before, processes } = input;
  const spec = { appId: app.id, releaseId: release.id, processes };
  if (before === undefined) {
    const draft = deps.resources.draft(formationType, { id: release.id, owner: ownedBy(app.id), spec });
    return { formation: draft.resource, piece: draft.piece };
  }
  const updatedAt = new Date(deps.now()).toISOString();
  const formation: FormationResource = { ...before, spec, updatedAt, generation: before.generation + 1 };
  return { formation, piece: writePiece(formationType, before, formation) };
}

async function workloadPieces(
  deps: Deps,
  input: {
    app: AppResource;
    release: ReleaseResource;
    processes: Record<string, number>;
    types: readonly string[];
    signal: AbortSignal;
  },
): Promise<Piece[]> {
  const { app, release, processes, types, signal } = input;
  const runnable = await runnableOf(deps, app, release, signal);
  if (runnable === undefined) {
    throw new FlynnError(
      'invalid',
      `release v${release.spec.version} of ${app.spec.name} has no image or slug yet: push code first`,
    );
  }
  return types.map((type): Piece => {
    const process = release.spec.processes[type];
    if (process === undefined) return mergePieces([]);
    return {
      then: workloadChange(compileWorkload(runnable, type, process, processes[type] ?? 0), evaluationContext(deps)),
    };
  });
}
