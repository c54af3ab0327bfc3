/**
 * Carries deployments out: reads the world, asks rollout.ts for the next step, takes it. Level-triggered, so restarts are
 * harmless.
 */
import type { Again } from '@flynn/resource/reconciler';
import { compareOf } from '@flynn/resource/record';
import type { Compare } from '@flynn/store/store';
import type { UpTimes } from './progress.ts';
import { startPatienceMs, stopPatienceMs } from './patience.ts';
import { piecesOf } from './pieces.ts';
import { postdeployLine, progressMsOf, readWorld, typeStates } from './world.ts';
import type { World } from './world.ts';
import type { Deps } from '../deps.ts';
import { appType, deploymentType } from '../resources.ts';
import type { DeploymentResource } from '../resources.ts';
import { nextStep } from './rollout.ts';
import type { RolloutView } from './rollout.ts';
import type { RoutersWord } from './routers-word.ts';

/** One look at a deployment. `epoch` keeps a worker that lost its seat from writing. */
export async function stepDeployment(
  deps: Deps,
  id: string,
  options: { signal: AbortSignal; upTimes: UpTimes; word: RoutersWord; epoch?: Compare },
): Promise<void | Again> {
  const { signal, upTimes, word } = options;
  const deployment = await deps.resources.find(deploymentType, id, { signal });
  const phase = deployment === undefined ? undefined : phaseOf(deployment);
  if (deployment === undefined || phase === undefined) {
    upTimes.forget(id);
    word.forget(id);
    return;
  }
  const app = await deps.resources.find(appType, deployment.spec.appId, { signal });
  // The app's deletion takes the deployment with it.
  if (app === undefined || app.deletingSince !== undefined) return;
  const world = await readWorld(deps, app, deployment, signal);
  const step = nextStep(viewOf(deps, world, phase, upTimes));
  if (step.do === 'wait') {
    return step.untilMs === undefined ? undefined : { againInMs: Math.max(1, step.untilMs - deps.now()) };
  }
  // What was read is of before the wait: it is looked at again.
  if ((await word.await(deps, world, step, signal)) === 'waited') return { againInMs: 1 };
  const pieces = await piecesOf(deps, world, step, signal);
  // What is started of an app that goes meanwhile would stay for ever.
  const compare = [compareOf(app), ...(options.epoch === undefined ? [] : [options.epoch])];
  await deps.resources.commit([...pieces, { compare }], { signal });
  const why = 'error' in step ? { why: step.error } : {};
  deps.log.info({ app: app.spec.name, deployment: id, step: step.do, ...why }, 'deployment step');
  // Nothing else may change before the next batch is looked at.
  return { againInMs: 1 };
}

/** Undefined once it has ended. */
function phaseOf({ status }: DeploymentResource): RolloutView['phase'] | undefined {
  const { state } = status;
  if (state === 'complete' || state === 'failed') return undefined;
  return state === 'pending' ? 'running' : state;
}

function viewOf(deps: Deps, world: World, phase: RolloutView['phase'], upTimes: UpTimes): RolloutView {
  const { spec, status, createdAt } = world.deployment;
  const { deadlineMs } = spec.rollout;
  const nowMs = deps.now();
  const heldSinceMs = phase === 'canary' && status.heldSince !== undefined ? Date.parse(status.heldSince) : undefined;
  const onHoldMs = heldSinceMs === undefined ? 0 : nowMs - heldSinceMs;
  const heldMs = (status.heldMs ?? 0) + Math.max(0, onHoldMs);
  return {
    types: typeStates(deps, world, upTimes),
    plan: spec.rollout,
    phase,
    isPromoted: status.isPromoted === true,
    heldSinceMs,
    task: world.task,
    hasPostdeploy: postdeployLine(world) !== undefined,
    abort: status.abort,
    failure: status.error,
    nowMs,
    progressMs: progressMsOf(deps, world, upTimes),
    timeoutMs: spec.timeoutMs,
    patience: {
      startMs: startPatienceMs(world.next.processes),
      stopMs: stopPatienceMs(world.old?.processes),
      backMs: startPatienceMs(world.old?.processes),
    },
    deadlineMs: deadlineMs === undefined ? undefined : Date.parse(createdAt) + deadlineMs + heldMs,
  };
}
