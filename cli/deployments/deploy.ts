/** Rolls a release out and waits, as `env set`, `rollback` and others end. */
import { apps, deployments, releases } from '@flynn/controller/api';
import { isSettled } from '@flynn/controller/deployments/phases';
import type { Deployment, Release } from '@flynn/controller/model';
import { overtaken, withSeen } from '@flynn/controller/releases/overtaken';
import { FlynnError } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { untilInterrupted } from '../interruption.ts';
import { watchDeployment } from './watch.ts';
import { afterOthers } from './others.ts';
import { formatDuration, formatSeconds } from '../output.ts';

const followMs = 15 * 60_000;

export type Deployed = Pick<Deployment, 'state' | 'rollout'> & { tookMs: number };

type Wanted = {
  app: string;
  release: Release;
  /** What was live when it was made or chosen, null for nothing; with anything else live it is refused. */
  replaces?: string | null;
  /** A deployment of the app that is not live yet is waited for: whoever goes back from it is rather told of it. */
  waitsForOthers?: boolean;
  /** Made for this alone: it goes if it cannot be begun, so that nobody rolls it out later and takes back what came in between. */
  isOwn?: boolean;
};

/** Answers once the release is live, or waits for people; throws with the app's last lines when it did not come up. */
export async function deployRelease(context: Context, wanted: Wanted): Promise<Deployed> {
  return awaitDeployment(context, { app: wanted.app, what: `v${wanted.release.version}` }, () =>
    wanted.isOwn === true ? beginOwn(context, wanted) : begin(context, wanted),
  );
}

/** The same for a deployment of the app that `start` tells the id of; `what`: the release, as people call it. */
export async function awaitDeployment(
  context: Context,
  { app, what }: { app: string; what: string },
  start: () => Promise<string> | string,
): Promise<Deployed> {
  const startedAt = performance.now();
  const ended = await context.progress(`deploying ${what}`, async () =>
    watchDeployment(await context.client(), await start(), {
      until: isSettled,
      limitMs: followMs,
      app,
      onLost: (error) => context.waits(error),
      clock: context.io.clock,
    }),
  );
  if (ended.state !== 'failed') {
    if (ended.warning !== undefined) context.tell(`note: ${ended.warning}`);
    return { ...ended, tookMs: performance.now() - startedAt };
  }
  const lines = ended.failedJob?.lines.map((line) => `\n  | ${line}`).join('') ?? '';
  const after =
    ended.oldReleaseId === undefined
      ? `"flynn log -a ${app}" has all it said`
      : 'the release before it is live as it was';
  throw new FlynnError(
    'internal',
    `${what} was not deployed: ${ended.error ?? 'the deployment failed'}${lines}\n  ${after}`,
  );
}

/** Ctrl-C while another deployment is waited for changes nothing; once this one is begun it goes on by itself. */
async function beginOwn(context: Context, wanted: Wanted): Promise<string> {
  const { app, release } = wanted;
  return untilInterrupted(context.io, `stopped: v${release.version} was not deployed`, async (signal) => {
    const id = await begin(context, wanted, signal).catch(async (error: unknown) => {
      await forget(context, wanted);
      throw error;
    });
    if (!signal.aborted) return id;
    const next = `"flynn deployment info -a ${app}" tells how it ends`;
    throw new FlynnError('cancelled', `v${release.version} is being deployed already, and that goes on\n  ${next}`);
  });
}

async function begin(context: Context, wanted: Wanted, signal?: AbortSignal): Promise<string> {
  const { app, release, replaces, waitsForOthers = false } = wanted;
  const client = await context.client();
  const limits = { app, waitsUntilLive: waitsForOthers, ...(signal === undefined ? {} : { signal }) };
  const { id } = await afterOthers(context, limits, () =>
    withSeen(
      replaces === undefined ? {} : { replaces },
      (seen) => client.call(deployments.create, { params: { app }, body: { releaseId: release.id, ...seen } }),
      async () => {
        const { releaseId = null } = await client.call(apps.get, { params: { app } });
        if (releaseId !== replaces) throw overtaken(app);
      },
    ),
  );
  return id;
}

/** As well as may be: what it was made in vain for is told. */
async function forget(context: Context, { app, release }: Wanted): Promise<void> {
  try {
    const client = await context.client();
    await client.call(releases.remove, { params: { app, release: release.id } });
  } catch {
    // It is listed then, and never was live.
  }
}

/** `elsewhere`: the app, where it is another than the command's own. */
export function deployedText(
  { version }: Pick<Release, 'version'>,
  { tookMs, state, rollout }: Deployed,
  elsewhere?: string,
): string {
  if (state === 'canary') return `the canaries of v${version} are up: ${canaryText(rollout, elsewhere)}`;
  if (state === 'paused') {
    return `the deployment of v${version} is paused: ${deploymentCommand('resume', elsewhere)} or "abort"`;
  }
  return `release v${version} deployed in ${formatSeconds(tookMs)}`;
}

/** How it goes on with canaries that are up. */
export function canaryText(rollout: Deployment['rollout'], elsewhere?: string): string {
  const promotionMs = rollout?.autoPromoteMs;
  const alone =
    promotionMs === undefined ? '' : `the rest follows once they were healthy for ${formatDuration(promotionMs)}; `;
  return `${alone}${deploymentCommand('promote', elsewhere)} or "abort"`;
}

function deploymentCommand(name: string, elsewhere: string | undefined): string {
  return `"flynn${elsewhere === undefined ? '' : ` -a ${elsewhere}`} deployment ${name}"`;
}
