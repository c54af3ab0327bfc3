/** Makes an artifact and a release of what was built. */
import { randomBytes } from 'node:crypto';
import { apps, formations, releases } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import type { AppJson } from '@flynn/controller/apps/app-json';
import type { BuildResult, Operation, Release } from '@flynn/controller/model';
import { readBuildRecord } from '@flynn/controller/images/build-record';
import { resultMeta } from '@flynn/controller/images/image-blobs';
import { sendRelease } from '@flynn/controller/releases/newer-fields';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { firstCounts, firstEnv, unmadeNotes, withHealthchecks, withoutHealthchecks } from './app-json-plan.ts';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';
import { afterOthers } from './others.ts';
import { freshProcesses, processesOf, scriptsOf } from './release-plan.ts';
import type { Origin } from './release-plan.ts';

/** In a release's meta: a release that was made before its answer got lost is found by it. */
const operationMeta = 'flynn.operation';
/** And which one was live then, whose env and settings it has; nothing before the first. */
const basisMeta = 'flynn.basis';
/** In the meta of whatever was made of a build's result, whether or not that is known any more. */
const buildpackMeta = 'buildpack';

/** What was done by the time the release was refused. */
type Attempt = { artifactId?: string; areNotesTold?: boolean };

/** Whether the operation made it. */
export function isMadeBy({ id }: Pick<Operation, 'id'>, { meta }: Pick<Release, 'meta'>): boolean {
  return meta[operationMeta] === id;
}

/** Whether it was made before anything of the app was live. */
export function isOfFirst({ meta }: Pick<Release, 'meta'>): boolean {
  return meta[basisMeta] === '';
}

/** Output `releaseId`. */
export async function executeRelease(execution: Execution): Promise<Record<string, string>> {
  const { operation, write } = execution;
  await write('-----> Creating release...');
  const digest = operation.input.resultDigest ?? (await operationBefore(execution)).output['resultDigest'];
  if (digest === undefined) throw new FlynnError('invalid', 'the build left no result: push again');
  const { commit = '', branch = '' } = operation.input;
  const meta: Record<string, string> = {
    ...(commit === '' ? {} : { git: 'true', 'git.commit': commit }),
    ...(branch === '' ? {} : { 'git.branch': branch }),
  };
  const making: Making = { digest, meta, attempt: {}, isFirst: false };
  // What is being deployed now the release is to have too.
  const release = await afterOthers('creating the release', execution, (signal) =>
    createRelease(making, { ...execution, signal }),
  );
  await write(`       v${release.version} created`);
  return { releaseId: release.id };
}

/** `replaces`: what is live, null for nothing; left out for a release of which nobody knows what it was made of. */
type Renewed = { release: Release; replaces?: string | null };

/**
 * The release to be deployed now: `release`, or one made of the same build in its place, if what is live has changed since. As it
 * is it would take back what somebody set between it and its deployment. An operation that does it again finds what it made.
 */
export async function renewedRelease(release: Release, isFirst: boolean, execution: Execution): Promise<Renewed> {
  const { operation, controller, signal, write } = execution;
  const { artifactId, meta } = release;
  const basis = meta[basisMeta];
  if (basis === undefined || artifactId === undefined) return { release };
  const params = { app: release.appId };
  const { releaseId } = await controller.call(apps.get, { params }, { signal });
  const replaces = releaseId ?? null;
  if (releaseId === undefined || releaseId === release.id || releaseId === basis) return { release, replaces };
  const live = await controller.call(releases.get, { params: { ...params, release: releaseId } }, { signal });
  if (live.meta[operationMeta] === operation.id) return { release: live, replaces };
  const artifact = await controller.call(releases.getArtifact, { params: { artifact: artifactId } }, { signal });
  const digest = artifact.meta[resultMeta];
  if (digest === undefined) return { release };
  const attempt = { artifactId, areNotesTold: true };
  const renewed = await createRelease({ digest, meta, attempt, isFirst }, execution);
  await write(`       The app was changed meanwhile: v${renewed.version} has that too, and takes its place`);
  return { release: renewed, replaces };
}

/** The operation this one builds on. */
export async function operationBefore(execution: Execution): Promise<Operation> {
  const { operation, controller } = execution;
  const [dependsOn] = operation.dependsOn ?? [];
  if (dependsOn === undefined)
    throw new FlynnError('invalid', `the ${operation.kind} has nothing before it: push again`);
  return patiently('reading the operation before', execution, (signal) =>
    controller.call(operations.get, { params: { operation: dependsOn } }, { signal }),
  );
}

/** Of a build's result. `isFirst`: of the app, whatever is live, and app.json says how many of each type there are. */
type Making = { digest: string; meta: Readonly<Record<string, string>>; attempt: Attempt; isFirst: boolean };

async function createRelease(making: Making, execution: Execution): Promise<Release> {
  const { operation, controller, signal } = execution;
  const { digest } = making;
  const params = { app: operation.appId };
  const app = await controller.call(apps.get, { params }, { signal });
  const known = await controller.call(releases.list, { params }, { signal });
  const made = known.find(
    ({ meta }) => meta[operationMeta] === operation.id && meta[basisMeta] === (app.releaseId ?? ''),
  );
  const result = await readBuildRecord(execution.blobs, digest, execution);
  const live =
    app.releaseId === undefined
      ? undefined
      : await controller.call(releases.get, { params: { ...params, release: app.releaseId } }, { signal });
  // Again where the answer was lost: written twice it is the same.
  const release = made ?? (await makeRelease({ ...making, result }, { live, newest: known[0] }, execution));
  const written = live === undefined ? writtenDown(known.find(({ id }) => id !== release.id)) : undefined;
  await prepareCounts(result, release, { live: making.isFirst ? undefined : live, written }, execution);
  return release;
}

async function makeRelease(
  { digest, meta: known, attempt, result }: Making & { result: BuildResult },
  { live, newest }: { live: Release | undefined; newest: Release | undefined },
  execution: Execution,
): Promise<Release> {
  const { operation, controller, signal, write } = execution;
  const params = { app: operation.appId };
  const meta: Record<string, string> = {
    ...known,
    [operationMeta]: operation.id,
    [basisMeta]: live?.id ?? '',
    [buildpackMeta]: result.buildpack,
  };
  const app = await controller.call(apps.get, { params }, { signal });
  attempt.artifactId ??= await makeArtifact({ digest, result }, execution);
  const healthchecks = result.appJson?.healthchecks ?? {};
  const before = live ?? writtenDown(newest);
  const origin = before === undefined ? undefined : await originOf(before, execution);
  const earlier = ownProcesses(before?.processes ?? {}, origin, { now: healthchecks, appName: app.name });
  const checked = withHealthchecks(processesOf(result, earlier, origin), healthchecks, app.name);
  const env = live === undefined && result.appJson !== undefined ? envOfFirst(result.appJson, newest) : undefined;
  const notes = [...checked.notes, ...(env === undefined ? [] : unmadeNotes(result.appJson ?? { env: {} }, env.env))];
  if (notes.length > 0 && attempt.areNotesTold !== true) await write(...notes.map((note) => `       ${note}`));
  attempt.areNotesTold = true;
  const body = {
    artifactId: attempt.artifactId,
    processes: checked.processes,
    scripts: scriptsOf(result),
    cron: result.appJson?.cron ?? [],
    ...env,
    meta,
  };
  // Where somebody else was first, this one is made again of what they made.
  return sendRelease({ ...body, basis: (live ?? newest)?.id ?? null }, (known) =>
    controller.call(releases.create, { params, body: known }, { signal }),
  );
}

/** Before the first deployment: what people said the app is to be like, and not what a push that failed left. */
function writtenDown(newest: Release | undefined): Release | undefined {
  return newest?.artifactId === undefined ? newest : undefined;
}

/**
 * A result that is gone with its blob is one that nobody knows any more, and so is that of an image which was imported without.
 * What a slug's types were started by shows in their commands.
 */
async function originOf({ artifactId }: Release, { controller, blobs, signal }: Execution): Promise<Origin> {
  if (artifactId === undefined) return 'people';
  try {
    const params = { artifact: artifactId };
    const { type, meta } = await controller.call(releases.getArtifact, { params }, { signal });
    const digest = meta[resultMeta];
    if (digest !== undefined) return await readBuildRecord(blobs, digest, { signal });
    return type === 'image' && meta[buildpackMeta] !== undefined ? undefined : 'people';
  } catch (error) {
    // Nor what is more than is read of one, of before there was such a limit.
    if (hasCode(error, 'not_found', 'invalid')) return undefined;
    throw error;
  }
}

function ownProcesses(
  processes: Release['processes'],
  origin: Origin,
  wanted: { now: AppJson['healthchecks']; appName: string },
): Release['processes'] {
  if (origin === undefined || origin === 'people' || origin.appJson === undefined) return processes;
  const { healthchecks } = origin.appJson;
  return withoutHealthchecks(processes, { fresh: freshProcesses(origin), healthchecks }, wanted);
}

async function makeArtifact(
  { digest, result }: { digest: string; result: BuildResult },
  { controller, slugRunnerImage, signal }: Execution,
): Promise<string> {
  const { id } = await controller.call(
    releases.createArtifact,
    {
      body: {
        ...(result.image === undefined
          ? { type: 'slug', image: { base: slugRunnerImage, layers: result.layers } }
          : { type: 'image', image: { config: result.image.config, layers: result.layers } }),
        meta: {
          ...result.meta,
          [resultMeta]: digest,
          [buildpackMeta]: result.buildpack,
          sizeBytes: String(result.sizeBytes),
        },
      },
    },
    { signal },
  );
  return id;
}

function envOfFirst(appJson: AppJson, newest: Release | undefined): Pick<Release, 'env' | 'references'> {
  const { env = {}, references = {} } = newest ?? {};
  return { env: firstEnv(appJson, env, () => randomBytes(32).toString('hex')), references };
}

/**
 * Before the deployment, which begins with them; of other types it has as many as are live then. What people wrote down counts
 * first.
 */
async function prepareCounts(
  { appJson }: BuildResult,
  release: Release,
  { live, written }: { live: Release | undefined; written: Release | undefined },
  { controller, signal }: Execution,
): Promise<void> {
  const params = { app: release.appId, release: release.id };
  const types = { now: Object.keys(release.processes), before: Object.keys(live?.processes ?? {}) };
  const ofFile = appJson === undefined ? {} : firstCounts(appJson, types);
  const asked =
    written === undefined
      ? {}
      : (await controller.call(formations.get, { params: { ...params, release: written.id } }, { signal })).processes;
  // One that nobody scaled wants nothing of anything, which says nothing.
  const wanted = Object.entries(asked).filter(([type, count]) => count > 0 && types.now.includes(type));
  const counts = { ...ofFile, ...Object.fromEntries(wanted) };
  if (Object.keys(counts).length === 0) return;
  await controller.call(formations.put, { params, body: { processes: counts } }, { signal });
}
