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
    return step.untilMs === undefined ? undefined : { againInMs: Math.max(1, step.untilMs - upTimes.now()) };
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
  const { spec, status } = world.deployment;
  const nowMs = upTimes.now();
  return {
    types: typeStates(deps, world, upTimes, nowMs),
    plan: spec.rollout,
    phase,
    isPromoted: status.isPromoted === true,
    task: world.task,
    hasPostdeploy: postdeployLine(world) !== undefined,
    abort: status.abort,
    failure: status.error,
    nowMs,
    progressMs: progressMsOf(deps, world, upTimes, nowMs),
    timeoutMs: spec.timeoutMs,
    patience: {
      startMs: startPatienceMs(world.next.processes),
      stopMs: Math.max(stopPatienceMs(world.old?.processes), stopPatienceMs(world.earlier?.processes)),
      backMs: startPatienceMs(world.old?.processes),
    },
    ...limitsOf(deps, world, phase, upTimes, nowMs),
  };
}

/**
 * What was written down for the next worker too is as old as it seems when it is first seen, and from then on as much older as it
 * is by the steady clock. A deployment that took no step yet has just begun.
 */
function limitsOf(
  deps: Deps,
  { deployment }: World,
  phase: RolloutView['phase'],
  upTimes: UpTimes,
  nowMs: number,
): Pick<RolloutView, 'heldSinceMs' | 'deadlineMs'> {
  const { id, spec, status, createdAt } = deployment;
  const since = (what: string, saidAt: string) =>
    upTimes.firstMs(id, `${what} ${saidAt}`, { nowMs, ageMs: deps.now() - Date.parse(saidAt) });
  const { heldSince, heldMs = 0, steppedAt } = status;
  const heldSinceMs = phase === 'canary' && heldSince !== undefined ? since('held since', heldSince) : undefined;
  const begunMs =
    steppedAt === undefined ? upTimes.firstMs(id, `made at ${createdAt}`, { nowMs }) : since('made at', createdAt);
  const { deadlineMs } = spec.rollout;
  if (deadlineMs === undefined) return { heldSinceMs };
  return {
    heldSinceMs,
    deadlineMs: begunMs + deadlineMs + heldMs + (heldSinceMs === undefined ? 0 : nowMs - heldSinceMs),
  };
}
