/** Rolls a release out and waits, as `env set`, `rollback` and others end. */
import { setTimeout as sleep } from 'node:timers/promises';
import { deployments } from '@flynn/controller/api';
import { deploymentSchema, type Deployment, type Release } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { Context } from './context.ts';
import { formatSeconds } from './output.ts';

const followMs = 15 * 60_000;
const pauseMs = 250;

/** Answers once the release is live; throws with the app's last lines when it did not come up. */
export async function deployRelease(context: Context, app: string, release: Release): Promise<{ tookMs: number }> {
  const client = await context.client();
  const startedAt = performance.now();
  const ended = await context.progress(`deploying v${release.version}`, async () => {
    const started = await client.call(deployments.create, { params: { app }, body: { releaseId: release.id } });
    return follow(context, started.id);
  });
  if (ended.state === 'complete') return { tookMs: performance.now() - startedAt };
  throw failureOf(ended, `v${release.version}`);
}

/** Follows a deployment somebody else started; throws as `deployRelease` does. */
export async function awaitDeployment(context: Context, id: string, what: string): Promise<{ tookMs: number }> {
  const startedAt = performance.now();
  const ended = await context.progress(`deploying ${what}`, () => follow(context, id));
  if (ended.state === 'complete') return { tookMs: performance.now() - startedAt };
  throw failureOf(ended, what);
}

function failureOf(ended: Deployment, what: string): FlynnError {
  const lines = ended.failedJob?.lines.map((line) => `\n  | ${line}`).join('') ?? '';
  const after =
    ended.oldReleaseId === undefined ? '"flynn log" has all it said' : 'the release before it is live as it was';
  return new FlynnError(
    'internal',
    `${what} was not deployed: ${ended.error ?? 'the deployment failed'}${lines}\n  ${after}`,
  );
}

/** Follows a deployment to its end, through a controller that restarts in between: it may be the one being deployed. */
async function follow(context: Context, id: string): Promise<Deployment> {
  const client = await context.client();
  const params = { deployment: id };
  const signal = withDeadline(followMs);
  for (;;) {
    try {
      for await (const event of client.events(deployments.events, { params }, { signal })) {
        if (event.event === 'deployment' && hasEnded(deploymentSchema.parse(event.data))) break;
      }
      const latest = await client.call(deployments.get, { params });
      if (hasEnded(latest)) return latest;
    } catch (error) {
      if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    }
    if (signal.aborted) {
      throw new FlynnError(
        'timeout',
        `the deployment is still under way after ${followMs / 60_000} minutes\n  it goes on by itself: "flynn deployment" tells how it ends`,
      );
    }
    await sleep(pauseMs);
  }
}

function hasEnded({ state }: Deployment): boolean {
  return state === 'complete' || state === 'failed';
}

export function deployedText(release: Release, tookMs: number): string {
  return `release v${release.version} deployed in ${formatSeconds(tookMs)}`;
}
