/** The controller's background: one worker leads and reconciles, the others wait. All it knows is in the store. */
import { pause } from '@flynn/kit/clock';
import { TaskGroup, forever } from '@flynn/kit/tasks';
import { runAsLeader } from '@flynn/resource/lease';
import { keysOf, reconciling } from '@flynn/resource/reconciler';
import type { Source } from '@flynn/resource/reconciler';
import { superviseAll } from '@flynn/resource/supervise';
import type { Supervised } from '@flynn/resource/supervise';
import type { Mirror } from '@flynn/store/mirror';
import type { Compare } from '@flynn/store/store';
import { stepDeletion } from './apps/deletion.ts';
import { ByApp } from './mirrors/by-app.ts';
import { isCronJob, stepCron } from './cron/steps.ts';
import { stepBackups } from './backup/steps.ts';
import type { BackupBlobs } from './backup/steps.ts';
import type { BlobCollector } from './collection/blob-collection.ts';
import { statusesOfApp, valuesOf } from './mirrors/cell-view.ts';
import { cleanUp, keptByApp } from './collection/clean-up.ts';
import { forgetOld } from './collection/forgetting.ts';
import { collectAll } from './collection/rounds.ts';
import { appIdOf } from './processes/compile.ts';
import { keepDatastores } from './datastore-backups/keeping.ts';
import type { DumpBlobs } from './datastore-backups/making.ts';
import type { HistoryBlobs } from './datastore-history/catalogue.ts';
import { keepHistories } from './datastore-history/keeping.ts';
import { UpTimes } from './deployments/progress.ts';
import { RoutersWord } from './deployments/routers-word.ts';
import { addBuiltInProviders } from './datastores/built-in.ts';
import { leaveDraining } from './datastores/switchover.ts';
import { stepDeployment } from './deployments/steps.ts';
import type { Deps } from './deps.ts';
import { runKinds } from './generic/worker.ts';
import { keepHistory } from './operations/pruning.ts';
import { lossOfSilent } from './operations/lost-builds.ts';
import { buildOperationOf } from './builds/compile.ts';
import { OperationWatch, stopLeftBuilds } from './operations/watch.ts';
import { appType, cronType } from './resources.ts';
import { stepReview } from './apps/review-apps.ts';
import { keepSealed } from './sealing/steps.ts';
import { sourceType } from './source/resource.ts';
import { stepSource } from './source/steps.ts';
import type { AppResource } from './resources.ts';
import { keepRunners } from './operations/runner-registry.ts';
import { workerSeat } from './worker-seat.ts';

const leaseTtlSeconds = 5;
const sweepMs = 1_000;
const forgetMs = 3_600_000;
const collectEveryMs = 30 * 60_000;
const backupLookMs = 2_000;

type Options = { signal: AbortSignal; epoch: Compare };

type WorkerBlobs = BlobCollector & BackupBlobs & DumpBlobs & HistoryBlobs;

/** Runs until the signal aborts. */
export async function runWorker(deps: Deps, signal: AbortSignal, blobs?: WorkerBlobs): Promise<void> {
  await Promise.all([lead(deps, signal, blobs), runKinds(deps, signal)]);
}

async function lead(deps: Deps, signal: AbortSignal, blobs?: WorkerBlobs): Promise<void> {
  const { store, log } = deps;
  await runAsLeader({
    store,
    name: workerSeat,
    ttlSeconds: leaseTtlSeconds,
    signal,
    log,
    async lead({ signal: term, epochCompare }) {
      await using apps = await deps.resources.mirror(appType, { signal: term });
      await using sources = await deps.resources.mirror(sourceType, { signal: term });
      await using crons = await deps.resources.mirror(cronType, { signal: term });
      const { cell, deployments, operations } = deps;
      using lines = new ByApp(crons, ({ spec }) => spec.appId);
      using kept = keptByApp(deps);
      const watch = new OperationWatch({ ...deps, lossOf: (operation) => lossOfSilent(deps, operation) });
      const upTimes = new UpTimes();
      const word = new RoutersWord();
      using listeners = new DisposableStack();
      listeners.defer(
        cell.hosts.onChange(({ key, after }) => upTimes.hostChanged(key, { isThere: after !== undefined })),
      );
      const statusApps = keysOf(cell.statuses, ({ workloadId }) => [appIdOf(workloadId)]);
      const placedApps = keysOf(cell.assignments, ({ groups }) => groups.map(({ workloadId }) => appIdOf(workloadId)));
      // Mirrors keep no order among each other. A job may be up here before its app is known to be deployed: then the
      // app's own change is what wakes the deployment, and an assignment's where an old job goes without a word.
      const deploymentsOfApps = [statusApps, placedApps, keysOf(apps)].map((source) =>
        mapSource(source, (appId) => definedOf(apps.snapshot.entries.get(appId)?.value.status.deploymentId)),
      );
      const hasLeftBuilds = (id: string): boolean => {
        const operation = operations.snapshot.entries.get(id)?.value;
        return operation === undefined || operation.status.losses !== undefined;
      };
      const leftBuilds = keysOf(operations, ({ spec }, id) => (spec.kind === 'build' && hasLeftBuilds(id) ? [id] : []));
      const endedPolls = keysOf(operations, ({ spec }, id) =>
        spec.kind === 'poll' && !operations.snapshot.entries.has(id) ? [spec.appId] : [],
      );
      const buildsUnderWay = keysOf(cell.workloads, ({ id, count }) => {
        const operation = count === 0 ? undefined : buildOperationOf(id);
        return operation !== undefined && hasLeftBuilds(operation) ? [operation] : [];
      });
      const evaluationApps = keysOf(cell.evaluations, ({ workloadId }) => [appIdOf(workloadId)]);
      const deletingApps = (source: Source): Source =>
        mapSource(source, (id) => (apps.snapshot.entries.get(id)?.value.deletingSince === undefined ? [] : [id]));
      const cronJobs = keysOf(cell.statuses, ({ workloadId }) => (isCronJob(workloadId) ? [appIdOf(workloadId)] : []));
      const endedOneOffs = keysOf(cell.workloads, ({ kind, count, id }) =>
        kind === 'ephemeral' && count === 0 ? [appIdOf(id)] : [],
      );
      const openDeployments = mapSource(keysOf(deployments), (id) => {
        const state = deployments.snapshot.entries.get(id)?.value.status.state;
        return state === 'complete' || state === 'failed' ? [] : [id];
      });
      // What is on a host that goes is up no longer, and of an omni type one less is wanted: also of one that is tagged.
      const deploymentsByHosts = [keysOf(cell.hosts), keysOf(cell.settings)].map((source) =>
        mapSource(source, () => openDeployments.all()),
      );
      const common = { log };
      const epoch = epochCompare;
      const tasks: Supervised[] = [
        { name: 'collection', run: (signal) => collectRegularly(deps, blobs, { signal, epoch }) },
        ...(blobs === undefined ? [] : keepingTasks(deps, blobs, { apps, epoch })),
        reconciling({
          ...common,
          name: 'deployments',
          sources: [openDeployments, ...deploymentsOfApps, ...deploymentsByHosts],
          concurrency: 16,
          reconcile: (id, { signal: run }) => stepDeployment(deps, id, { signal: run, upTimes, word, epoch }),
        }),
        reconciling({
          ...common,
          name: 'app deletion',
          sources: [keysOf(apps), ...[statusApps, placedApps, evaluationApps].map(deletingApps)],
          reconcile: (id, { signal: run }) => stepDeletion(deps, id, { signal: run, epoch }),
        }),
        reconciling({
          ...common,
          name: 'builds nobody waits for',
          sources: [leftBuilds, buildsUnderWay],
          reconcile: (id, { signal: run }) => stopLeftBuilds(deps, id, { signal: run, epoch }),
        }),
        reconciling({
          ...common,
          name: 'datastores on hosts that drain',
          sources: [mapSource(keysOf(cell.settings), () => datastoresOf(apps))],
          reconcile: (id, { signal: run }) => leaveDraining(deps, id, run),
        }),
        { name: 'forgetting the trail', run: (signal) => forgetRegularly(deps, { signal, epoch }) },
        reconciling({
          ...common,
          name: 'cron',
          sources: [keysOf(apps), keysOf(crons, ({ spec }) => [spec.appId]), cronJobs],
          reconcile: (id, { signal: run }) =>
            stepCron(deps, id, {
              signal: run,
              linesOf: (appId) => lines.of(appId),
              statusesOf: (appId) => statusesOfApp(cell, appId),
            }),
        }),
        reconciling({
          ...common,
          name: 'sources',
          sources: [keysOf(sources), endedPolls],
          reconcile: (id, { signal: run }) => stepSource(deps, id, { signal: run, epoch }),
        }),
        { name: 'overdue operations', run: (signal) => sweepRegularly(deps, watch, { signal, epoch }) },
        { name: 'history of operations', run: (signal) => keepHistory(deps, { log, signal, epoch }) },
        { name: 'runners', run: (signal) => keepRunners(deps, { log, signal, epoch }) },
        reconciling({
          ...common,
          name: 'review apps',
          sources: [keysOf(apps)],
          resyncMs: 600_000,
          reconcile: (id, { signal: run }) => stepReview(deps, id, { signal: run }),
        }),
        reconciling({
          ...common,
          name: 'clean-up',
          sources: [
            keysOf(operations, ({ spec }) => [spec.appId]),
            keysOf(deployments, ({ spec }) => [spec.appId]),
            endedOneOffs,
          ],
          concurrency: 1,
          resyncMs: 600_000,
          reconcile: (appId, { signal: run }) => cleanUp(deps, appId, kept, { signal: run, epoch }),
        }),
      ];
      // What has an end of its own fails nobody, and is not begun again.
      await using ending = new TaskGroup({ signal: term });
      ending.run('built-in providers', (signal) => addBuiltInProviders(deps, { signal, epoch }));
      ending.run('sealing', (signal) => keepSealed(deps.sealed, { log, signal, epoch }));
      // The next term begins when all of this has ended.
      await superviseAll(tasks, { log, signal: term });
    },
  });
}

/** The first time a while after the start: what begins with a new worker is not to wait for it. */
async function collectRegularly(deps: Deps, blobs: BlobCollector | undefined, options: Options): Promise<void> {
  const step = async (signal: AbortSignal): Promise<void> => {
    await pause(collectEveryMs, signal);
    if (signal.aborted) return;
    await collectAll(deps, blobs, { ...options, signal });
  };
  await forever('collection', step, { signal: options.signal, log: deps.log });
}

/** What is kept where there are blobs to keep it in. */
function keepingTasks(
  deps: Deps,
  blobs: WorkerBlobs,
  { apps, epoch }: { apps: Mirror<AppResource>; epoch: Compare },
): Supervised[] {
  return [
    { name: 'backups', run: (signal) => backUpRegularly(deps, blobs, { signal, epoch }) },
    { name: 'datastores', run: (signal) => keepDatastores(deps, blobs, { apps, signal, epoch }) },
    { name: 'histories of datastores', run: (signal) => keepHistories(deps, blobs, { apps, signal, epoch }) },
  ];
}

/** One that is wanted now is looked for every two seconds. */
async function backUpRegularly(deps: Deps, blobs: BackupBlobs, options: Options): Promise<void> {
  const step = async (signal: AbortSignal): Promise<void> => {
    const waitMs = await stepBackups(deps, blobs, { ...options, signal });
    await pause(Math.max(0, Math.min(waitMs, backupLookMs)), signal);
  };
  await forever('backups', step, { signal: options.signal, log: deps.log });
}

function definedOf(id: string | undefined): string[] {
  return id === undefined ? [] : [id];
}

function datastoresOf(apps: Mirror<AppResource>): string[] {
  return valuesOf(apps).flatMap(({ id, spec }) => (spec.datastore === undefined ? [] : [id]));
}

function mapSource(source: Source, toIds: (id: string) => Iterable<string>): Source {
  return {
    *all() {
      for (const id of source.all()) yield* toIds(id);
    },
    subscribe: (add) =>
      source.subscribe((id) => {
        for (const mapped of toIds(id)) add(mapped);
      }),
  };
}

async function forgetRegularly(deps: Deps, { signal, epoch }: Options): Promise<void> {
  const step = async (run: AbortSignal): Promise<void> => {
    await forgetOld(deps, { signal: run, epoch });
    await pause(forgetMs, run);
  };
  await forever('forgetting the trail', step, { signal, log: deps.log });
}

async function sweepRegularly(deps: Deps, watch: OperationWatch, { signal, epoch }: Options): Promise<void> {
  const step = async (run: AbortSignal): Promise<void> => {
    await watch.sweep({ signal: run, epoch });
    await pause(sweepMs, run);
  };
  await forever('looking for overdue operations', step, { signal, log: deps.log });
}
