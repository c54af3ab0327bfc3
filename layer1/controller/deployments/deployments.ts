/** Deployments as they are asked for and followed. The first jobs of the new release start with the very transaction. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { resourceKey } from '@flynn/resource/keys';
import { compareOf } from '@flynn/resource/record';
import { writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { workloadChange } from '@flynn/scheduler/evaluations';
import type { Compare } from '@flynn/store/store';
import { deployments } from '../api.ts';
import { placedJobs } from '../mirrors/cell-view.ts';
import { compileWorkload, workloadIdOf } from '../processes/compile.ts';
import type { Runnable } from '../processes/compile.ts';
import { controlHandlers } from './controls.ts';
import { deploymentEvents } from './events.ts';
import { checkDeployedLinks } from '../access/links.ts';
import { checkDatastores, checkNoSuchPart } from '../access/neighbours.ts';
import { actingFor } from '../access/on-behalf.ts';
import type { Askers } from '../access/on-behalf.ts';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { takenNames, turnFor } from '../access/name-turns.ts';
import { checkNames } from '../access/service-names.ts';
import { endOfFormer, leftBy } from './former.ts';
import { hasEnded, lastWaitText, mayBeFollowed } from './phases.ts';
import { changedRollout } from './settings.ts';
import { taskId, taskLine, taskPiece } from './tasks.ts';
import { evaluationContext, findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { checkCarriedCounts, keptCounts } from '../formations/counts.ts';
import { formationPiece } from '../formations/formations.ts';
import { overtaken } from '../releases/overtaken.ts';
import { findRelease, runnableOf } from '../releases/releases.ts';
import { appType, deploymentType, formationType, ownedBy, releaseType } from '../resources.ts';
import type { AppResource, DeploymentResource, FormationResource, ReleaseResource } from '../resources.ts';
import { targetCounts } from './rollout.ts';
import type { Counts } from './rollout.ts';
import { sharesPieces } from './shares.ts';
import { holdsShares, nextCounts } from './strategies.ts';
import { pageOf } from '../paging.ts';
import { jobsOfBefore, progressOf, unstopped } from './progress.ts';
import { viewDeployment } from '../views.ts';
import type { Rollout, RolloutChange } from './rollout-settings.ts';

const maxAttempts = 8;

export function deploymentHandlers(deps: Deps, askers: Askers): Handler[] {
  const { resources } = deps;
  return [
    handle(deployments.create, async (call) => {
      const { params, body, signal } = call;
      const app = await findLiveApp(deps, params.app, signal);
      const principal = await actingFor(deps, askers, principalOf(call), { app, signal });
      const deployment = await startDeployment(
        deps,
        { app: app.id, release: body.releaseId, rollout: body.rollout ?? {}, replaces: body.replaces },
        { principal, signal },
      );
      return viewDeployment(deployment, progressOf(deployment, deps.cell));
    }),
    handle(deployments.list, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      await followed(deps, app, signal);
      const all = deps.deploymentsByApp.of(app.id);
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
      deploymentEvents(deps, await resources.get(deploymentType, params.deployment, { signal }), signal),
    ),
    ...controlHandlers(deps),
  ];
}

/**
 * What anybody wrote of what is under way, its beginning and its end too, is in the mirror then. It is asked for by the
 * deployments' own revisions: that of the app is mostly none of theirs, and the mirror reaches it by reading all there are.
 */
async function followed(deps: Deps, app: AppResource, signal: AbortSignal): Promise<void> {
  const open = deps.deploymentsByApp.of(app.id).filter(({ status }) => !hasEnded(status));
  const ids = new Set([app.status.deploymentId ?? [], open.map(({ id }) => id)].flat());
  if (ids.size > 0) {
    const then = [...ids].map((id) => ({ get: resourceKey(deploymentType.name, id) }));
    const { reads } = await deps.store.transact({ then }, { signal });
    const revisions = reads.flat().map(({ modRevision }) => modRevision);
    await deps.deployments.reached(Math.max(0, ...revisions), { signal });
  }
  // What is live came with one that is not known yet: it began and ended before the mirror heard of it.
  const isBehind = app.status.deploymentId === undefined && lastLive(deps, app.id) !== app.status.releaseId;
  if (isBehind) await deps.deployments.reached(app.revision, { signal });
}

/** The release that was made live last, as far as is known. */
function lastLive(deps: Deps, appId: string): string | undefined {
  const complete = deps.deploymentsByApp.of(appId).filter(({ status }) => status.state === 'complete');
  return complete.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1)).at(-1)?.spec.newReleaseId;
}

/** `principal`: undefined for the platform itself. */
type Asking = { principal: Principal | undefined; signal: AbortSignal };

export async function startDeployment(
  deps: Deps,
  asked: { app: string; release: string; rollout: RolloutChange; replaces?: string | null | undefined },
  { principal, signal }: Asking,
): Promise<DeploymentResource> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const app = await findLiveApp(deps, asked.app, signal);
      const release = await findRelease(deps, app, asked.release, signal);
      return await deploy(deps, app, { ...asked, release }, { principal, signal });
    } catch (error) {
      const isOvertaken = hasCode(error, 'conflict') && error.detail['key'] !== undefined;
      if (!isOvertaken || attempt >= maxAttempts) throw error;
    }
  }
}

type Content = Pick<ReleaseResource['spec'], 'processes' | 'links'>;

/** What took a name since the release was made, and who lost the role that a link takes. Throws `denied`. */
export async function checkDeployed(
  deps: Deps,
  app: AppResource,
  { next, live }: { next: Content; live: Content | undefined },
  { principal, signal }: Asking,
): Promise<void> {
  const { processes } = next;
  await checkDatastores(deps, app, processes, signal);
  await checkNoSuchPart(deps, app, processes, signal);
  await checkNames(deps, app, { processes, principal }, signal);
  await checkDeployedLinks(deps, app, { next, before: live, principal }, signal);
}

async function deploy(
  deps: Deps,
  app: AppResource,
  asked: { release: ReleaseResource; rollout: RolloutChange; replaces?: string | null | undefined },
  { principal, signal }: Asking,
): Promise<DeploymentResource> {
  const { resources } = deps;
  const { release } = asked;
  const rollout = changedRollout(app.spec.rollout, asked.rollout);
  const oldId = app.status.releaseId;
  const { deploymentId } = app.status;
  const former =
    deploymentId === undefined ? undefined : await resources.find(deploymentType, deploymentId, { signal });
  const isWaited = former === undefined || !mayBeFollowed({ ...former.status, rollout }) || oldId === release.id;
  if (deploymentId !== undefined && isWaited) throw underWay(deps, app, deploymentId);
  const [runnable, prepared, old, oldFormation] = await Promise.all([
    runnableOf(deps, app, release, signal),
    resources.find(formationType, release.id, { signal }),
    oldId === undefined || oldId === release.id ? undefined : resources.get(releaseType, oldId, { signal }),
    oldId === undefined ? undefined : resources.find(formationType, oldId, { signal }),
  ]);
  if (oldId === release.id) {
    return alreadyLive(deps, app, { release, rollout, counts: oldFormation?.spec.processes ?? {} }, signal);
  }
  const taken = takenNames(app, { next: release.spec.processes, live: old?.spec.processes ?? {} });
  const turn = await turnFor(deps, taken, signal);
  await checkDeployed(deps, app, { next: release.spec, live: old?.spec }, { principal, signal });
  if (asked.replaces !== undefined && asked.replaces !== (oldId ?? null)) throw overtaken(app.spec.name);
  const types = Object.keys(release.spec.processes);
  const counts = targetCounts({
    types,
    prepared: prepared?.spec.processes,
    old:
      old === undefined
        ? undefined
        : { types: Object.keys(old.spec.processes), counts: oldFormation?.spec.processes ?? {} },
  });
  const kept = old === undefined ? {} : keptCounts(old.spec.processes, oldFormation?.spec.processes);
  checkCarriedCounts(app, release, counts, kept);
  const drains = former && leftBy(former, { releaseId: release.id, counts, rollout }, deps.cell);
  if (former !== undefined && drains === undefined) throw underWay(deps, app, former.id);
  const formation = formationPiece(deps, { app, release, before: prepared, processes: counts });
  const id = deps.newId();
  const line = runnable === undefined ? undefined : taskLine(release.spec.scripts, 'release');
  const releaseJobId = taskId(app.id, 'release', id);
  const first = { app, release, old, runnable, counts, oldCounts: oldFormation?.spec.processes ?? {}, rollout };
  const deployment = resources.draft(deploymentType, {
    id,
    owner: ownedBy(app.id),
    ...(line === undefined ? {} : { status: { state: 'releasing' as const, progress: {}, releaseJobId } }),
    spec: {
      appId: app.id,
      ...(oldId === undefined ? {} : { oldReleaseId: oldId }),
      newReleaseId: release.id,
      ...(drains === undefined ? {} : { drains }),
      counts,
      oldCounts: oldFormation?.spec.processes ?? {},
      knownJobs: jobsOfBefore(deps.cell, app.id, { id: release.id, env: {}, processes: release.spec.processes }),
      timeoutMs: app.spec.deployTimeoutMs,
      rollout,
    },
  });
  const shares =
    oldId === undefined || holdsShares(rollout)
      ? []
      : await sharesPieces(deps, app.id, { what: 'leaving', releaseId: oldId }, signal);
  const locked: AppResource = { ...app, status: { ...app.status, deploymentId: deployment.resource.id } };
  const pieces = [
    writePiece(appType, app, locked),
    ...(former === undefined ? [] : [endOfFormer(deps, former)]),
    // One that is deleted at this moment is not deployed; what is scaled at this moment is not taken back.
    { compare: [compareOf(release), ...(oldId === undefined ? [] : [countsCompare(oldId, oldFormation)])] },
    turn,
    deployment.piece,
    formation.piece,
    ...shares,
    // What a release wants run before it takes over comes before its first job.
    ...(line === undefined || runnable === undefined
      ? startPieces(deps, first)
      : [taskPiece(deps, runnable, { id: releaseJobId, type: 'release', line })]),
  ];
  const revision = await resources.commit(pieces, { signal });
  return { ...deployment.resource, revision };
}

function underWay(deps: Deps, { spec }: AppResource, deploymentId: string): FlynnError {
  const status = deps.deployments.snapshot.entries.get(deploymentId)?.value.status;
  const more = status?.state === 'finishing' ? `; ${lastWaitText(status)}` : '';
  const message = `a deployment of ${spec.name} is under way: wait for it to end, see flynn deployment${more}`;
  return new FlynnError('conflict', message, { detail: { deploymentId } });
}

/** That nobody scales the release whose counts were read: who does compares the app, which that does not change. */
function countsCompare(releaseId: string, formation: FormationResource | undefined): Compare {
  return compareOf(formation ?? { type: formationType.name, id: releaseId, revision: 0 });
}

/** The first jobs of the new release, beside those of the old. */
function startPieces(
  deps: Deps,
  input: {
    app: AppResource;
    release: ReleaseResource;
    old: ReleaseResource | undefined;
    runnable: Runnable | undefined;
    counts: Counts;
    oldCounts: Counts;
    rollout: Rollout;
  },
): Piece[] {
  const { app, release, old, runnable, counts, oldCounts, rollout } = input;
  const isReplaced = (type: string) => runnable !== undefined && isInPlace(app.id, runnable, old, type);
  const wanted = Object.entries(counts).filter(([type, count]) => count > 0 || isReplaced(type));
  if (wanted.length === 0) return [];
  if (runnable === undefined) {
    throw new FlynnError(
      'invalid',
      `release v${release.spec.version} of ${app.spec.name} has no image or slug: nothing can run`,
    );
  }
  const types = wanted.map(([type, target]) => {
    const original = old?.spec.processes[type] === undefined ? 0 : (oldCounts[type] ?? 0);
    const isShared = isReplaced(type);
    const oldWanted = isShared ? 0 : original;
    const fresh = { newWanted: 0, newUp: 0, isInPlace: isShared, isSwitched: !isShared };
    return Object.assign(fresh, { type, target, original, oldWanted, oldPresent: oldWanted });
  });
  const isFirst = types.every(({ original }) => original === 0);
  const first = nextCounts(types, rollout, isFirst);
  // What has to begin with an old job's end is the worker's.
  if (typeof first === 'string' || hasUnstopped(deps, app.id, runnable, wanted)) return [];
  return types.flatMap(({ type }): Piece[] => {
    const process = runnable.release.processes[type];
    const count = first.newCounts[type] ?? 0;
    if (process === undefined || count === 0) return [];
    return [{ then: workloadChange(compileWorkload(runnable, type, process, count), evaluationContext(deps)) }];
  });
}

/** Of a deployment before, which failed a moment ago. */
function hasUnstopped(
  { cell }: Pick<Deps, 'cell'>,
  appId: string,
  { release }: Pick<Runnable, 'release'>,
  wanted: readonly (readonly [type: string, count: number])[],
): boolean {
  const { entries: hosts } = cell.hosts.snapshot;
  const { entries: workloads } = cell.workloads.snapshot;
  const ids = wanted
    .map(([type]) => workloadIdOf(appId, release, type))
    .filter((id) => (workloads.get(id)?.value.count ?? 0) === 0);
  const placed = placedJobs(cell, (id) => ids.includes(id)).filter(({ hostId }) => hosts.has(hostId));
  return ids.some((id) => unstopped(placed, id).length > 0);
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
  { release, rollout, counts }: { release: ReleaseResource; rollout: Rollout; counts: Record<string, number> },
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
        rollout,
      },
      status: { state: 'complete', progress: {}, endedAt: at },
    },
    { also: () => ({ compare: [compareOf(app)] }), signal },
  );
}
