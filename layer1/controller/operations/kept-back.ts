/** What of an app's operations would only wait for its deployment? It is given to no runner before: its slots are for others. */
import type { Mirror } from '@flynn/store/mirror';
import type { Deps } from '../deps.ts';
import { hasEnded, holdsCounts, mayBeFollowed, needsPeople } from '../deployments/phases.ts';
import type { Deployment } from '../model.ts';
import type { DeploymentResource } from '../resources.ts';
import type { OperationKind } from './queue.ts';

/**
 * The kinds that it keeps from being done for now: a release is made once it is live, the next deployment begins once it has
 * ended, or beside its last old jobs where its strategy has room: if there are too many of them, whoever asks is told, and
 * waits. One that waits for people keeps nothing back: whoever pushed is to hear of it.
 */
export function keptBack(deployment: Pick<Deployment, 'state' | 'rollout' | 'postdeployJobId'>): OperationKind[] {
  if (hasEnded(deployment) || needsPeople(deployment) || mayBeFollowed(deployment)) return [];
  return holdsCounts(deployment) ? ['release', 'deploy'] : ['deploy'];
}

/** From now on the queue keeps back what deployments do, and whoever asks is served when they do no longer. */
export function keepBackDuring(
  deployments: Pick<Mirror<DeploymentResource>, 'snapshot' | 'onChange'>,
  { queue, dispatch }: Pick<Deps, 'queue' | 'dispatch'>,
): void {
  const follow = ({ id, spec, status }: DeploymentResource): void =>
    queue.keepBack(
      spec.appId,
      id,
      keptBack({ state: status.state, rollout: spec.rollout, postdeployJobId: status.postdeployJobId }),
    );
  for (const { value } of deployments.snapshot.entries.values()) follow(value);
  deployments.onChange(({ key, before, after }) => {
    if (after !== undefined) follow(after);
    else if (before !== undefined) queue.keepBack(before.spec.appId, key, []);
    dispatch.wake();
  });
}
