/** A release that differs from the one before in its configuration alone, rolled out: how `env set` and `link add` end. */
import { apps, releases } from '@flynn/controller/api';
import type { Process, Release } from '@flynn/controller/model';
import { usageError } from './arguments.ts';
import type { Context } from './context.ts';
import { deployRelease, deployedText } from './deploy.ts';

/** The live release; before there is one, the newest that was made. */
export async function newestRelease(context: Context): Promise<Release | undefined> {
  const client = await context.client();
  const params = { app: await context.appName() };
  const app = await client.call(apps.get, { params });
  if (app.releaseId !== undefined) return client.call(releases.get, { params: { ...params, release: app.releaseId } });
  return (await client.call(releases.list, { params }))[0];
}

/** What a release has of a type, which is to be changed. */
export function processOf(release: Release | undefined, type: string): Process {
  const process = release?.processes[type];
  if (process !== undefined) return process;
  const known = Object.keys(release?.processes ?? {});
  throw usageError(
    `there is no process type "${type}": there ${known.length === 0 ? 'are none yet' : `is ${known.join(', ')}`}`,
  );
}

/** Answers once it is live, and tells so; one without anything to run is only made. */
export async function makeNextRelease(
  context: Context,
  before: Release | undefined,
  change: Partial<Pick<Release, 'env' | 'references' | 'processes'>>,
): Promise<void> {
  const client = await context.client();
  const app = await context.appName();
  const release = await client.call(releases.create, {
    params: { app },
    body: {
      meta: before?.meta ?? {},
      // Said, because the controller takes over only what the live release has, and there may be none.
      env: before?.env ?? {},
      references: before?.references ?? {},
      processes: before?.processes ?? {},
      ...(before?.artifactId === undefined ? {} : { artifactId: before.artifactId }),
      ...change,
    },
  });
  if (release.artifactId === undefined) {
    context.show(
      { changed: true, release },
      () => `release v${release.version} created; it takes effect with the first push`,
    );
    return;
  }
  const deployed = await deployRelease(context, app, release);
  context.show({ changed: true, release }, () => deployedText(release, deployed));
}
