/** Rolls a release out and tells how it goes. */
import { deployments, jobs, releases } from '@flynn/controller/api';
import { routing } from '@flynn/controller/routes/api';
import { platform } from '@flynn/controller/platform/api';
import { isWebType } from '@flynn/controller/processes/compile';
import { isSettled, isWaiting } from '@flynn/controller/deployments/phases';
import { type Deployment, type Release, deploymentSchema } from '@flynn/controller/model';
import { withSeen } from '@flynn/controller/releases/overtaken';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode, ifFound, messageOf } from '@flynn/kit/errors';
import { followJob } from './build-operation.ts';
import { failedJobLines, idleLines, progressLines, remainsLine, routeLines, waitingLines } from './deploy-text.ts';
import { takeBackCancelled } from './deploy-cancellation.ts';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';
import { afterOthers } from './others.ts';
import { isMadeBy, isOfFirst, operationBefore, renewedRelease } from './release-operation.ts';

/** Output `deploymentId`. */
export async function executeDeploy(execution: Execution): Promise<Record<string, string>> {
  const { operation, controller, write } = execution;
  const releaseId = (await operationBefore(execution)).output['releaseId'];
  if (releaseId === undefined) throw new FlynnError('invalid', 'there is no release to deploy: push again');
  const params = { app: operation.appId, release: releaseId };
  const asMade = await patiently('reading the release', execution, (signal) =>
    controller.call(releases.get, { params }, { signal }),
  );
  await write(`-----> Deploying v${asMade.version}...`);
  const { release, deployment, isTold } = await rollOut(asMade, execution);
  if (deployment.state === 'failed') {
    await write(...(isTold(deployment) ? [] : failedJobLines(deployment)), remainsLine(deployment));
    throw new FlynnError(
      'invalid',
      deployment.error ?? `the deployment of v${release.version} failed without a reason`,
    );
  }
  if (isWaiting(deployment)) {
    await write(...waitingLines(deployment));
    return { deploymentId: deployment.id };
  }
  if (deployment.warning !== undefined) await write(` !     ${deployment.warning}`);
  const idle = await idleOf(deployment, release, execution);
  await write(...idle, '=====> Application deployed', ...(await addresses(release, execution)));
  return { deploymentId: deployment.id };
}

/** Follows it to its end, unless it is cancelled: then it is taken back. */
async function rollOut(
  asMade: Release,
  execution: Execution,
): Promise<Started & { isTold: (deployment: Deployment) => boolean }> {
  let release = asMade;
  try {
    const started = await startDeployment(asMade, execution);
    ({ release } = started);
    await tellRelease(started.deployment, execution);
    const deployment = await follow(started.deployment, execution);
    // What the release command said was told as it said it.
    const isTold = ({ failedJob }: Deployment): boolean =>
      failedJob?.type === 'release' && started.deployment.state === 'releasing';
    return { release, deployment, isTold };
  } catch (error) {
    if (execution.signal.aborted) await takeBackCancelled(new Set([asMade.id, release.id]), execution);
    throw error;
  }
}

type Started = { release: Release; deployment: Deployment };

/**
 * Waits for another deployment of the app to end. One of a release that this operation deploys is its own: its answer got lost.
 * What that other one set the release is to have too.
 */
async function startDeployment(asMade: Release, execution: Execution): Promise<Started> {
  const { operation, controller } = execution;
  const params = { app: operation.appId };
  const begun = operation.output['deploymentId'] ?? (await begunBefore(asMade, execution));
  if (begun !== undefined) {
    return patiently('reading the deployment', execution, async (signal) => {
      const deployment = await controller.call(deployments.get, { params: { deployment: begun } }, { signal });
      const deployed = { ...params, release: deployment.newReleaseId };
      return { release: await controller.call(releases.get, { params: deployed }, { signal }), deployment };
    });
  }
  let release = asMade;
  return afterOthers(
    'another deployment of the app to end',
    execution,
    async (signal) => {
      const { release: renewed, ...seen } = await renewedRelease(release, isOfFirst(asMade), { ...execution, signal });
      release = renewed;
      // What is live was looked at just now.
      const deployment = await withSeen(seen, (known) =>
        controller.call(deployments.create, { params, body: { releaseId: renewed.id, ...known } }, { signal }),
      );
      return { release, deployment };
    },
    (other) => (other.newReleaseId === release.id ? { release, deployment: other } : undefined),
  );
}

/**
 * The deployment that a runner began which gave the operation back. By its release, whatever became of it: what failed is not
 * begun a second time.
 */
async function begunBefore(asMade: Release, execution: Execution): Promise<string | undefined> {
  const { operation, controller } = execution;
  const params = { app: operation.appId };
  if (operation.handover === undefined) return undefined;
  return patiently('looking for its deployment', execution, async (signal) => {
    const made = await controller.call(releases.list, { params }, { signal });
    const own = new Set([asMade, ...made.filter((one) => isMadeBy(operation, one))].map(({ id }) => id));
    const all = await controller.call(deployments.list, { params }, { signal });
    return all.find(({ newReleaseId }) => own.has(newReleaseId))?.id;
  });
}

/** The output of what runs before the release takes over. How it ended the deployment says. */
async function tellRelease(deployment: Deployment, execution: Execution): Promise<void> {
  const { releaseJobId, appId, state } = deployment;
  if (releaseJobId === undefined || state !== 'releasing') return;
  await execution.write('-----> Running the release command...');
  const params = { app: appId, job: releaseJobId };
  try {
    const job = await patiently('finding the release command', execution, (signal) =>
      execution.controller.call(jobs.get, { params }, { signal }),
    );
    await followJob(job, execution);
  } catch (error) {
    if (execution.signal.aborted) throw error;
    await execution.write(`       (its output cannot be told: ${messageOf(error)})`);
  }
}

async function follow(start: Deployment, execution: Execution): Promise<Deployment> {
  const { controller, signal, write } = execution;
  const params = { deployment: start.id };
  let progress: Deployment['progress'] = {};
  const tell = async (deployment: Deployment): Promise<void> => {
    await write(...progressLines(progress, deployment));
    progress = deployment.progress;
  };
  for (;;) {
    try {
      for await (const { event, data } of controller.events(deployments.events, { params }, { signal })) {
        if (event !== 'deployment') continue;
        const told = deploymentSchema.parse(data);
        await tell(told);
        if (isSettled(told)) return told;
      }
    } catch (error) {
      // A controller that is being replaced: the next look is at another one.
      if (!hasCode(error, 'unavailable', 'timeout', 'cancelled', 'exhausted')) throw error;
    }
    signal.throwIfAborted();
    const now = await patiently('following the deployment', execution, (signal) =>
      controller.call(deployments.get, { params }, { signal }),
    );
    await tell(now);
    if (isSettled(now)) return now;
    await systemClock.sleep(500, { signal });
  }
}

async function idleOf(deployment: Deployment, release: Release, execution: Execution): Promise<string[]> {
  const types = Object.keys(release.processes);
  const { oldReleaseId } = deployment;
  const idle = idleLines(deployment, types, []);
  if (oldReleaseId === undefined || idle.length === 0) return idle;
  const params = { app: release.appId, release: oldReleaseId };
  const old = await patiently('reading the release before', execution, (signal) =>
    ifFound(execution.controller.call(releases.get, { params }, { signal })),
  );
  return idleLines(deployment, types, old === undefined ? types : Object.keys(old.processes));
}

async function addresses(release: Release, execution: Execution): Promise<string[]> {
  if (!Object.keys(release.processes).some(isWebType)) return [];
  const params = { app: release.appId };
  return patiently('reading the routes', execution, async (signal) => {
    const routes = await execution.controller.call(routing.list, { params }, { signal });
    return routeLines(routes, await execution.controller.call(platform.cluster, {}, { signal }));
  });
}
