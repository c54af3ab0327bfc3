/** What people may do to a deployment under way: pause, resume, promote, abort. Each of them twice is the same as once. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { deploymentControls } from './api-controls.ts';
import { lastWaitText } from './phases.ts';
import { progressOf } from './progress.ts';
import { troubleOf } from './rollout.ts';
import { readWorld, typeStates } from './world.ts';
import type { Deps } from '../deps.ts';
import type { Deployment } from '../model.ts';
import { appType, deploymentType } from '../resources.ts';
import type { DeploymentResource } from '../resources.ts';
import { viewDeployment } from '../views.ts';

type Status = DeploymentResource['status'];
type Act = 'pause' | 'resume' | 'promote' | 'abort';

/** The states in which each makes sense; in all others it is refused with the state. */
const possible: Readonly<Record<Act, readonly Status['state'][]>> = {
  pause: ['pending', 'running', 'canary', 'paused'],
  resume: ['pending', 'running', 'paused', 'canary'],
  promote: ['canary'],
  abort: ['pending', 'releasing', 'running', 'canary', 'paused', 'rolling_back'],
};

export function controlHandlers(deps: Deps): Handler[] {
  const act = (name: Act, id: string, signal: AbortSignal, reason?: string) =>
    control(deps, name, { id, reason, signal });
  return [
    handle(deploymentControls.pause, ({ params, signal }) => act('pause', params.deployment, signal)),
    handle(deploymentControls.resume, ({ params, signal }) => act('resume', params.deployment, signal)),
    handle(deploymentControls.promote, ({ params, signal }) => act('promote', params.deployment, signal)),
    handle(deploymentControls.abort, ({ params, body, signal }) =>
      act('abort', params.deployment, signal, body.reason),
    ),
  ];
}

async function control(
  deps: Deps,
  act: Act,
  { id, reason, signal }: { id: string; reason: string | undefined; signal: AbortSignal },
): Promise<Deployment> {
  const at = new Date(deps.now()).toISOString();
  if (act === 'promote') await checkCanary(deps, id, signal);
  const changed = await deps.resources.updateStatus(
    deploymentType,
    id,
    ({ status }) => {
      const isPromoted = act === 'promote' && status.isPromoted === true;
      if (!isPromoted && !possible[act].includes(status.state)) throw refusal(act, status);
      return isPromoted ? status : changedStatus(status, act, { at, reason });
    },
    { signal },
  );
  return viewDeployment(changed, progressOf(changed, deps.cell));
}

/** A canary that is not well shows nothing that more of it should come for. */
async function checkCanary(deps: Deps, id: string, signal: AbortSignal): Promise<void> {
  const deployment = await deps.resources.get(deploymentType, id, { signal });
  if (deployment.status.state !== 'canary') return;
  const app = await deps.resources.get(appType, deployment.spec.appId, { signal });
  // Whoever saw them up may be another controller.
  await deps.cell.statuses.reached(deployment.revision, { signal });
  const world = await readWorld(deps, app, deployment, signal);
  // Each has been up for as long as it has to be, and hosts away for as long as they are waited for: else it would not wait to be
  // promoted.
  const seen = { seen: (_id: string, up: readonly unknown[]) => up.map(() => 0), awaySinceMs: () => 0 };
  const trouble = troubleOf(typeStates(deps, world, seen, Infinity));
  if (trouble === undefined) return;
  throw new FlynnError(
    'conflict',
    `cannot promote this deployment, its canaries are not healthy: ${trouble}; promote it once they are, or go back with: flynn deployment abort`,
    { detail: { state: deployment.status.state } },
  );
}

/** What becomes of a deployment's status. Pure. Time on hold does not count: its deadlines move by it. */
export function changedStatus(status: Status, act: Act, asked: { at: string; reason?: string | undefined }): Status {
  const { at, reason } = asked;
  switch (act) {
    case 'pause':
      // A canary keeps the time since when it waits.
      return status.state === 'paused' ? status : { ...status, state: 'paused', heldSince: status.heldSince ?? at };
    case 'resume':
      return status.state === 'paused' ? released(status, at) : status;
    case 'promote':
      return { ...released(status, at), isPromoted: true };
    case 'abort':
      return {
        ...status,
        abort: status.abort ?? (reason === undefined ? 'it was aborted' : `it was aborted: ${reason}`),
      };
    default:
      return act satisfies never;
  }
}

function released({ heldSince = '', ...status }: Status, at: string): Status {
  const heldMs = (status.heldMs ?? 0) + Math.max(0, Date.parse(at) - Date.parse(heldSince || at));
  return { ...status, state: 'running', heldMs, steppedAt: at };
}

function refusal(act: Act, status: Status): FlynnError {
  const { state } = status;
  const isOver = state === 'complete' || state === 'failed';
  const what = isOver ? `it is ${state}` : `it is ${state.replace('_', ' ')}`;
  const next: Readonly<Record<Act, string>> = {
    pause: 'only what is being rolled out can be paused',
    resume: 'only what is paused can be resumed',
    promote: isOver
      ? 'there is nothing to promote any more'
      : 'only a canary whose jobs are up can be promoted; resume one that is paused',
    abort:
      state === 'finishing'
        ? `the new release is live, and ${lastWaitText(status)}; then go back with: flynn rollback`
        : state === 'complete'
          ? 'the new release is live; go back with: flynn rollback'
          : 'there is nothing to abort any more',
  };
  return new FlynnError('conflict', `cannot ${act} this deployment, ${what}: ${next[act]}`, { detail: { state } });
}
