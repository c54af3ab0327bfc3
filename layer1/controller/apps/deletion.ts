/** Takes apart an app that is to go: first what runs, then, once its jobs have ended, everything that is kept of it. */
import { removeKeyspace } from '@flynn/host-agent/keyspaces/keyspace';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { resourceKey } from '@flynn/resource/keys';
import { removePiece } from '@flynn/resource/piece';
import { deleteOwned } from '@flynn/resource/reaper';
import { isUnreadable } from '@flynn/resource/record';
import type { Again } from '@flynn/resource/reconciler';
import type { AnyType } from '@flynn/resource/type';
import { cellKeys } from '@flynn/scheduler/cell';
import type { Workload } from '@flynn/scheduler/cell';
import { workloadRemoval } from '@flynn/scheduler/evaluations';
import type { Compare, Operation } from '@flynn/store/store';
import { grantType } from '../access/resources.ts';
import { isOpen, placedJobs, statusesOfApp, valuesOf } from '../mirrors/cell-view.ts';
import { collectArtifactsOf } from '../collection/collection.ts';
import { appIdOf } from '../processes/compile.ts';
import { backupPlanType, datastoreBackupType } from '../datastore-backups/types.ts';
import { archiveType, historyType } from '../datastore-history/types.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { hasEnded } from '../jobs/views.ts';
import { removeLog } from '../operations/log.ts';
import { endedOperationsOf } from '../operations/pruning.ts';
import { historyKey } from '../operations/records.ts';
import { operationLock } from '../operations/writer.ts';
import {
  appFinalizer,
  appType,
  artifactType,
  cronType,
  deploymentType,
  drainType,
  formationType,
  operationType,
  ownedBy,
  releaseType,
  routeType,
} from '../resources.ts';
import { leaveResources } from '../providers/leaving.ts';
import { hookType } from '../source/hook/resource.ts';
import { sourceType } from '../source/resource.ts';
import { findVolumes } from '../volumes/volumes.ts';

/** etcd takes 128 operations in a transaction. */
const batchSize = 100;
const lookAgainMs = 1_000;

type Options = { signal: AbortSignal; epoch: Compare };

/** One look at an app that is being deleted. What it has that cannot be read keeps it: it says so, and is looked at again. */
export async function stepDeletion(deps: Deps, id: string, options: Options): Promise<void | Again> {
  try {
    return await takeApart(deps, id, options);
  } catch (error) {
    if (isUnreadable(error)) {
      const wayOut = `if it stays so, flynn gc --forget ${String(error.detail['unreadable'])} gives it up for good`;
      await tellWaiting(deps, id, `${messageOf(error)}; ${wayOut}`, options);
    }
    throw error;
  }
}

async function takeApart(deps: Deps, id: string, options: Options): Promise<void | Again> {
  const { signal, epoch } = options;
  const app = await deps.resources.find(appType, id, { signal });
  if (app?.deletingSince === undefined) return;
  await stopEverything(deps, id, options);
  if (hasJobs(deps, id)) {
    await tellWaiting(deps, id, 'its jobs to stop', options);
    return { againInMs: lookAgainMs };
  }
  // Mirrors keep no order among each other. What was asked for before the app was to go, where it was placed, how it ended
  // and what that causes: who has seen one of them has to have seen the others.
  const { workloads, evaluations, assignments, statuses } = deps.cell;
  const mirrors = [workloads, evaluations, assignments, statuses];
  const seen = Math.max(app.revision, ...mirrors.map(({ snapshot }) => snapshot.revision));
  await Promise.all(mirrors.map((mirror) => mirror.reached(seen, { signal })));
  if (workloadsOf(deps, id).length > 0 || hasJobs(deps, id)) return { againInMs: lookAgainMs };
  // What other kinds made for it: their own reconcilers may have to clean up first.
  const others = deps.kinds.registry.ownedBy(appType.name).filter((type) => !ownTypes.has(type.name));
  const left = await deleteOwned({ service: deps.resources, types: others, epoch }, ownedBy(id), signal);
  if (left > 0) {
    await tellWaiting(deps, id, `${left} of what it owns to go`, options);
    return { againInMs: lookAgainMs };
  }
  await leaveResources(deps, id, options);
  if (app.spec.removesVolumes && !(await removeVolumesOf(deps, id, signal))) {
    await tellWaiting(deps, id, 'its volumes to be given up by what had them', options);
    return { againInMs: lookAgainMs };
  }
  if (app.spec.datastore !== undefined) await removeKeyspace(deps.store, id, { signal });
  // Who makes something of an app writes or compares its record: what came after the listing changed it, and is looked for again.
  const { revision: expectRevision } = await deps.resources.get(appType, id, { signal });
  await removeEverything(deps, id, options);
  const also = () => ({ compare: [epoch] });
  await deps.resources.removeFinalizer(appType, id, appFinalizer, { signal, also, expectRevision });
  deps.log.info({ app: app.spec.name, id }, 'app deleted');
}

/**
 * Whether all went that can: while something still holds one it is tried again; what a host has that cannot be asked stays
 * there, as that of an app that is gone.
 */
async function removeVolumesOf(deps: Deps, appId: string, signal: AbortSignal): Promise<boolean> {
  const { volumes, unasked } = await findVolumes(deps, { appId, signal });
  let isThrough = true;
  for (const { hostId, hostName } of volumes) {
    try {
      await deps.hosts.removeVolume(hostId, hostName, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (hasCode(error, 'conflict', 'unavailable')) isThrough = false;
      else deps.log.warn({ err: error, hostId, volume: hostName }, 'a volume of an app that goes was left where it is');
    }
  }
  for (const { hostId, reason } of unasked) {
    deps.log.warn({ hostId, appId, reason }, 'a host was not asked for the volumes of an app that goes');
  }
  return isThrough;
}

/** What it has of these is removed at the end, and its releases after them. One that cannot be read keeps the app. */
export const keptTypes: readonly AnyType[] = [
  routeType,
  drainType,
  formationType,
  deploymentType,
  cronType,
  sourceType,
  grantType,
  datastoreBackupType,
  historyType,
  archiveType,
  backupPlanType,
];

/** What `removeEverything` takes away. */
const ownTypes: ReadonlySet<string> = new Set(
  [artifactType, deploymentType, formationType, operationType, releaseType, routeType].map(({ name }) => name),
);

async function tellWaiting({ resources }: Deps, id: string, what: string, { signal, epoch }: Options): Promise<void> {
  const waitingFor = { [appFinalizer]: what };
  await resources.change(appType, id, () => ({ waitingFor }), { signal, also: () => ({ compare: [epoch] }) });
}

async function stopEverything(deps: Deps, id: string, options: Options): Promise<void> {
  const { resources, cell } = deps;
  const { signal } = options;
  for (const operation of await resources.list(operationType, { owner: ownedBy(id), signal })) {
    // Ending one ends those that depend on it.
    const event = { type: 'cancel', isForced: true, reason: 'its app was deleted' } as const;
    await deps.writer.apply(operation.id, event, options);
  }
  const workloads = workloadsOf(deps, id);
  const removed = await writeAll(
    deps,
    workloads.flatMap((workload) => workloadRemoval(workload.id, evaluationContext(deps))),
    options,
  );
  if (removed === undefined) return;
  await Promise.all([cell.workloads, cell.evaluations].map((mirror) => mirror.reached(removed, { signal })));
}

function workloadsOf({ cell }: Deps, id: string): Workload[] {
  return valuesOf(cell.workloads).filter((workload) => appIdOf(workload.id) === id);
}

/** Whether a job of the app may still run, or be placed by a plan under way. What a lost host ran has ended. */
function hasJobs(deps: Deps, id: string): boolean {
  const { cell } = deps;
  const hosts = cell.hosts.snapshot.entries;
  return (
    statusesOfApp(cell, id).some((status) => !hasEnded(status) && hosts.has(status.hostId)) ||
    placedJobs(cell, (workloadId) => appIdOf(workloadId) === id).some((job) => hosts.has(job.hostId)) ||
    valuesOf(cell.evaluations).some((evaluation) => isOpen(evaluation) && appIdOf(evaluation.workloadId) === id)
  );
}

async function removeEverything(deps: Deps, id: string, options: Options): Promise<void> {
  const { resources, cell } = deps;
  const { signal } = options;
  const [own, operations] = await Promise.all([
    resources.list(releaseType, { owner: ownedBy(id), isStrict: true, signal }),
    endedOperationsOf(deps, id, signal),
  ]);
  const kept: Operation[][] = [];
  for (const type of keptTypes) kept.push(await removalsOf(deps, type, id, signal));
  const statuses = statusesOfApp(cell, id);
  await writeAll(
    deps,
    [
      ...statuses.map((status) => ({ delete: cellKeys.jobStatus(status.hostId, status.id) })),
      // What schedulers keep for a while of workloads that are gone.
      ...[cellKeys.templates, cellKeys.plans].map((prefix) => ({ deletePrefix: `${prefix}${id}-` })),
      ...valuesOf(cell.evaluations)
        .filter(({ workloadId }) => appIdOf(workloadId) === id)
        .map((evaluation) => ({ delete: cellKeys.evaluation(evaluation.id) })),
      ...operations.flatMap((operation) => [{ delete: historyKey(operation) }, removeLog(operation)]),
      { delete: operationLock(id) },
      ...kept.flat(),
      { delete: resourceKey(hookType.name, id) },
      // Last, because what else belongs to the app is found by them.
      ...own.flatMap((release) => removePiece(releaseType, release).then ?? []),
    ],
    options,
  );
  // What another app takes over at this moment stays.
  await collectArtifactsOf(deps, own, options);
}

async function removalsOf(deps: Deps, type: AnyType, appId: string, signal: AbortSignal): Promise<Operation[]> {
  const all = await deps.resources.list(type, { owner: ownedBy(appId), isStrict: true, signal });
  return all.flatMap((resource) => removePiece(type, resource).then ?? []);
}

/** In as many transactions as it takes; gives the last one's revision. Throws `cancelled` if the seat was lost. */
async function writeAll(deps: Deps, operations: readonly Operation[], options: Options): Promise<number | undefined> {
  let revision: number | undefined;
  for (let at = 0; at < operations.length; at += batchSize) {
    const result = await deps.store.transact(
      { compare: [options.epoch], then: operations.slice(at, at + batchSize) },
      { signal: options.signal },
    );
    if (!result.succeeded) throw new FlynnError('cancelled', 'another worker leads now');
    revision = result.revision;
  }
  return revision;
}
