/** Formations: how many jobs of each type. The count, the workload and the evaluation are written in one transaction. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { nearestOf } from '@flynn/kit/config';
import { compareOf } from '@flynn/resource/record';
import { mergePieces, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { formations } from './api.ts';
import { compileWorkload, isStanding } from './compile.ts';
import { holdsCounts } from './deployments/phases.ts';
import { evaluationContext, findApp, findLiveApp } from './deps.ts';
import type { Deps } from './deps.ts';
import type { Formation } from './model.ts';
import { findRelease, runnableOf } from './releases.ts';
import { deploymentType, formationType, ownedBy } from './resources.ts';
import type { AppResource, FormationResource, ReleaseResource } from './resources.ts';
import { viewFormation } from './views.ts';

const maxCount = 10_000;
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
      return await scale(deps, scaling, signal);
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
};

async function scale(deps: Deps, scaling: Scaling, signal: AbortSignal): Promise<Formation> {
  const app = await findLiveApp(deps, scaling.app, signal);
  const release = await findRelease(deps, app, scaling.release, signal);
  checkCounts(app, release, scaling.counts);
  // Once the new release is live nothing else changes its counts, though jobs of the old one are still ending.
  const { deploymentId } = app.status;
  const deployment = deploymentId && (await deps.resources.find(deploymentType, deploymentId, { signal }));
  if (deployment && holdsCounts(deployment.status)) {
    throw new FlynnError('conflict', `a deployment of ${app.spec.name} is under way: scale once it is through`);
  }
  const before = await deps.resources.find(formationType, release.id, { signal });
  if (scaling.revision !== undefined && scaling.revision !== before?.revision) {
    const what = `the formation of ${app.spec.name} v${release.spec.version}`;
    throw new FlynnError('conflict', `${what} was changed meanwhile: read it again and repeat the change`);
  }
  const processes = { ...(before === undefined ? {} : before.spec.processes), ...scaling.counts };
  const changed = Object.keys(scaling.counts).filter((type) => before?.spec.processes[type] !== scaling.counts[type]);
  if (before !== undefined && changed.length === 0) return viewFormation(before);
  const { formation, piece } = formationPiece(deps, { app, release, before, processes });
  // What is not live is written down for its deployment, and starts with it.
  const isLive = app.status.releaseId === release.id;
  const started = isLive ? await workloadPieces(deps, { app, release, processes, types: changed, signal }) : [];
  await deps.resources.commit([piece, { compare: [compareOf(app), compareOf(release)] }, ...started], { signal });
  return viewFormation(formation);
}

export function checkCounts(
  app: AppResource,
  release: ReleaseResource,
  counts: Readonly<Record<string, number>>,
): void {
  const types = Object.keys(release.spec.processes);
  for (const [type, count] of Object.entries(counts)) {
    if (!types.includes(type)) {
      const nearest = nearestOf(type, types);
      const known = types.length === 0 ? 'it has none' : `it has ${types.join(', ')}`;
      const hint = nearest === undefined || types.length < 2 ? '' : `; did you mean ${nearest}?`;
      throw new FlynnError(
        'invalid',
        `release v${release.spec.version} of ${app.spec.name} has no process type "${type}": ${known}${hint}`,
        {
          detail: { type, types },
        },
      );
    }
    if (count < 0) throw new FlynnError('invalid', `${type}=${count}: a count cannot be below zero`);
    if (count > maxCount) throw new FlynnError('invalid', `${type}=${count}: a count cannot be above ${maxCount}`);
    const reason = count > 1 ? manyReason(app, release, type) : count === 0 ? noneReason(app, type) : undefined;
    if (reason !== undefined) throw new FlynnError('invalid', `${type}=${count}: ${reason}`);
  }
}

/** What this API is reached by and runs on: by it alone they come back. */
const indispensable: ReadonlySet<string> = new Set(['controller web', 'controller worker', 'router web']);

export function isIndispensable({ spec }: AppResource, type: string): boolean {
  return spec.isSystem && indispensable.has(`${spec.name} ${type}`);
}

/** Why there may not be none of it. */
function noneReason(app: AppResource, type: string): string | undefined {
  if (!isIndispensable(app, type)) return undefined;
  return `without ${type} of ${app.spec.name} nothing could be changed any more, nor this taken back: keep at least one`;
}

/** Why there may be no two of it, and what to do instead. */
function manyReason(app: AppResource, release: ReleaseResource, type: string): string | undefined {
  const process = release.spec.processes[type];
  if (process === undefined) return undefined;
  if (process.omni) {
    const { maxHosts, constraints = [] } = process;
    const may = constraints.length === 0 ? '' : ' that meets its constraints';
    const where =
      maxHosts === undefined ? `every host${may} runs one` : `each of up to ${maxHosts} hosts${may} runs one`;
    const none = isIndispensable(app, type) ? '' : `, ${type}=0 none`;
    return `${where} of ${type} of ${app.spec.name}, and there are more of it with more hosts: ${type}=1 has them run${none}`;
  }
  if (!app.spec.isSystem || !isStanding(process)) return undefined;
  const what = `${type} of ${app.spec.name} keeps its data on one host, and a second one would have none of it`;
  return `${what}. With more to do it takes more room: flynn -a ${app.spec.name} limit set ${type} memory=1GB`;
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
