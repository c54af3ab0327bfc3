/** What an app has too much of: ended operations with their logs, deployments and one-off jobs of old. */
import { hasCode } from '@flynn/kit/errors';
import { removePiece } from '@flynn/resource/piece';
import type { Workload } from '@flynn/scheduler/cell';
import { workloadRemoval } from '@flynn/scheduler/evaluations';
import type { Compare } from '@flynn/store/store';
import { ByApp } from '../mirrors/by-app.ts';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { pruneApp } from '../operations/pruning.ts';
import { deploymentType } from '../resources.ts';
import type { DeploymentResource } from '../resources.ts';
import { expiredOneOffs } from './one-off-cleanup.ts';

const keepDeployments = 50;
const deletionBatch = 30;

type KeptByApp = Disposable & {
  workloads: ByApp<Workload>;
};

/** Every app is looked at every few minutes: what all have is not to be gone through for each of them. */
export function keptByApp({ cell }: Pick<Deps, 'cell'>): KeptByApp {
  const workloads = new ByApp(cell.workloads, ({ id }) => appIdOf(id));
  return {
    workloads,
    [Symbol.dispose]() {
      workloads[Symbol.dispose]();
    },
  };
}

export async function cleanUp(
  deps: Deps,
  appId: string,
  kept: KeptByApp,
  options: { signal: AbortSignal; epoch: Compare },
): Promise<void> {
  const { signal, epoch } = options;
  await pruneApp(deps, appId, options);
  for (const deployment of expiredDeployments(deps.deploymentsByApp.of(appId)).slice(0, deletionBatch)) {
    await deps.resources
      .commit([removePiece(deploymentType, deployment), { compare: [epoch] }], { signal })
      .catch(ignoreGone);
  }
  const old = (await expiredNow(deps, appId, kept, signal)).slice(0, deletionBatch);
  const then = old.flatMap((id) => workloadRemoval(id, evaluationContext(deps)));
  if (then.length > 0) await deps.store.transact({ compare: [epoch], then }, { signal });
}

/** Mirrors keep no order: how a job ended is written before that it is not wanted any more, but may be seen after it. */
async function expiredNow(deps: Deps, appId: string, kept: KeptByApp, signal: AbortSignal): Promise<string[]> {
  const { cell } = deps;
  const look = (): string[] => expiredOneOffs(kept.workloads.of(appId), statusesOfApp(cell, appId), deps.now());
  if (look().length === 0) return [];
  await cell.statuses.reached(cell.workloads.snapshot.revision, { signal });
  return look();
}

function expiredDeployments(all: readonly DeploymentResource[]): DeploymentResource[] {
  return all
    .filter(({ status }) => status.endedAt !== undefined)
    .toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1))
    .slice(keepDeployments);
}

/** What was deleted by somebody else meanwhile is as good as deleted. */
function ignoreGone(error: unknown): void {
  if (!hasCode(error, 'conflict')) throw error;
}
