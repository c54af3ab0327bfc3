/** What does a deployment's state mean for whoever follows it? Pure. */
import type { Deployment } from '../model.ts';

/** Told of what waits for a deployment that goes on by itself. */
export const othersText = '       Waiting for another deployment of this app to end';

/** The new release is live, and nothing is to come that somebody has to wait for: old jobs are ending. */
export function isLive({ state, postdeployJobId }: Pick<Deployment, 'state' | 'postdeployJobId'>): boolean {
  return state === 'complete' || (state === 'finishing' && postdeployJobId === undefined);
}

/**
 * What one whose release is live waits for: nothing else of its app is deployed before. Only a postdeploy can be ended: old jobs
 * are being stopped, and whoever stops one of them again changes nothing.
 */
export function lastWaitText({ postdeployJobId }: Pick<Deployment, 'postdeployJobId'>): string {
  const old = 'old jobs, which end by themselves once they have had their time to stop (flynn ps lists them)';
  if (postdeployJobId === undefined) return `it waits for ${old}`;
  return `it waits for its postdeploy, which flynn kill ${postdeployJobId} ends, or for ${old}`;
}

/**
 * Nothing but old jobs is left of it, and another may begin beside them: one strategy has room for that, which counts what is
 * too much in batches.
 */
export function mayBeFollowed({
  state,
  postdeployJobId,
  rollout,
}: Pick<Deployment, 'state' | 'postdeployJobId' | 'rollout'>): boolean {
  return state === 'finishing' && postdeployJobId === undefined && rollout?.strategy === 'in-batches';
}

/**
 * Its counts are the deployment's to change. One that ended after the app was read is no obstacle: whoever compares the app
 * learns that it has changed.
 */
export function holdsCounts({ state }: Pick<Deployment, 'state'>): boolean {
  return state !== 'finishing' && state !== 'complete' && state !== 'failed';
}

export function hasEnded({ state }: Pick<Deployment, 'state'>): boolean {
  return state === 'complete' || state === 'failed';
}

/** It waits for people, who may take days. */
export function isWaiting({ state }: Pick<Deployment, 'state'>): boolean {
  return state === 'canary' || state === 'paused';
}

/** It goes on only if people say so: whoever follows it to its end would wait in vain. */
export function needsPeople({ state, rollout }: Pick<Deployment, 'state' | 'rollout'>): boolean {
  return state === 'paused' || (state === 'canary' && rollout?.autoPromoteMs === undefined);
}

/** Following it any longer tells nothing that was asked for: whoever asks the app now is answered by the new release. */
export function isSettled(deployment: Pick<Deployment, 'state' | 'postdeployJobId' | 'progress'>): boolean {
  if (deployment.state === 'failed' || deployment.state === 'complete' || isWaiting(deployment)) return true;
  return isLive(deployment) && Object.values(deployment.progress).every(({ old }) => old === 0);
}
