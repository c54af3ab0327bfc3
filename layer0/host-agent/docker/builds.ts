/**
 * Images built from a Dockerfile by the engine.
 *
 * A step of a build is a container the engine makes by itself. It runs in a network of its build's own, by which it is known:
 * apart from jobs and other builds, so the cluster is to it what it is to any machine outside, and what its image says of
 * itself in our labels is believed by nobody (`isOurs`). The engine holds its memory; processes and disk are ours to hold.
 */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { pause } from '@flynn/kit/clock';
import { retry } from '@flynn/kit/retry';
import type { CallOptions, ImageBuild } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall, isStatus } from './errors.ts';
import { BuildSteps, readBuildProgress } from '../builds/progress.ts';
import { checkBases } from './base-images.ts';
import { imageId } from './images.ts';
import type { ImageContext } from './images.ts';
import { StepGuard, stepContainers } from './step-guard.ts';
import type { StepUsage } from './step-guard.ts';
import { buildBridge, buildNetwork, buildRepository, label } from '../engine/labels.ts';

/** Who asked holds the build to its own limit; this is for when nobody does any more. */
const buildDeadlineMs = 24 * 60 * 60_000;
/** That memory ran out is heard beside the end of a step, now and then after it: of one that was killed it is waited for longer. */
const outOfMemoryMs = 1_000;
const killedMs = 10_000;
const cleanUpDeadlineMs = 60_000;

/** Answers the tag of the image. When it fails or is cancelled, nothing it made is left but what earlier builds share. */
export async function buildImage(
  context: ImageContext,
  usage: StepUsage,
  build: ImageBuild,
  options: CallOptions,
): Promise<string> {
  const network = buildNetwork(context.cluster, build.id);
  context.builds.add(network);
  try {
    return await buildIn(network, context, usage, build, options);
  } finally {
    context.builds.delete(network);
  }
}

async function buildIn(
  network: string,
  context: ImageContext,
  usage: StepUsage,
  build: ImageBuild,
  options: CallOptions,
): Promise<string> {
  const { docker, cluster } = context;
  const tag = `${buildRepository(cluster)}:${build.cache}`;
  const ending = new AbortController();
  const signal = options.signal === undefined ? ending.signal : AbortSignal.any([options.signal, ending.signal]);
  const steps = new BuildSteps();
  const guard = new StepGuard(context, network, usage, build);
  let isKept = false;
  await makeNetwork(context, network, { signal });
  const watching = guard.run(ending.signal).catch((error: unknown) => ending.abort(error));
  try {
    const before = await taggedImages(context, build.cache, { signal });
    await checkBases(context, build.bases, { signal });
    await guard.isListening;
    await engineCall(
      'building the image',
      async (abortSignal) => {
        const request = {
          t: tag,
          dockerfile: build.dockerfile,
          buildargs: { ...build.args },
          networkmode: network,
          memory: build.limits.memoryBytes,
          memswap: build.limits.memoryBytes,
          cpushares: Math.max(2, Math.round((build.limits.cpuMillis * 1024) / 1000)),
          rm: true,
          // Nothing more would be heard of a step that failed: it goes with its network.
          forcerm: false,
          // BuildKit's steps are no containers: nobody could hold them to anything.
          version: '1' as const,
          abortSignal,
        };
        const progress = await docker.buildImage(build.context, request);
        await readBuildProgress(progress, steps, build.onText);
      },
      { signal, deadlineMs: buildDeadlineMs },
    );
    await keep(context, build.cache, steps, before, { signal });
    isKept = true;
    return tag;
  } catch (error) {
    // That memory ran out is told apart from what the step said of it.
    if (hasCode(error, 'invalid')) {
      const isKilled = / code: 137\b/.test(messageOf(error));
      await Promise.race([guard.outOfMemory, pause(isKilled ? killedMs : outOfMemoryMs, signal)]);
    }
    signal.throwIfAborted();
    throw guard.wasOutOfMemory ? tooMuchMemory(build.limits.memoryBytes, error) : error;
  } finally {
    ending.abort(new FlynnError('cancelled', 'the build has ended'));
    build.context.destroy();
    await watching;
    await removeNetwork(context, network);
    if (!isKept) await removeMade(context, steps);
  }
}

function tooMuchMemory(bytes: number, cause: unknown): FlynnError {
  const message = `the build needed more memory than its limit of ${Math.round(bytes / 1024 ** 2)} MB: a process of it was ended`;
  return new FlynnError('exhausted', message, { cause });
}

async function makeNetwork({ docker, cluster }: DockerContext, name: string, options: CallOptions): Promise<void> {
  await engineCall(
    'making the network of a build',
    (abortSignal) =>
      docker.createNetwork({
        Name: name,
        Driver: 'bridge',
        Options: { 'com.docker.network.bridge.name': buildBridge(name) },
        // Rules of ours judge IPv4 alone, and an engine may be told to give each new network the other as well.
        EnableIPv6: false,
        Labels: { [label.cluster]: cluster, [label.build]: name },
        abortSignal,
      }),
    options,
  );
}

/** With what is left in it. */
async function removeNetwork(context: DockerContext, name: string): Promise<void> {
  const { docker } = context;
  await retry(
    async (signal) => {
      for (const { Id } of await stepContainers(context, name, { signal })) {
        const request = { force: true, v: true, abortSignal: signal };
        await engineCall('removing a step', () => docker.getContainer(Id).remove(request), { signal }).catch(
          notFoundIsFine,
        );
      }
      await engineCall('removing the network of a build', () => docker.getNetwork(name).remove(), { signal }).catch(
        notFoundIsFine,
      );
    },
    { what: 'clearing up after a build', deadlineMs: cleanUpDeadlineMs, isRetryable: () => true },
  );
}

/** What a crash of the agent left behind: no build outlives its agent. What does not go keeps no other from it. */
export async function removeBuildsLeft(context: ImageContext, options: CallOptions): Promise<void> {
  const { docker, cluster, builds } = context;
  const filters = { label: [`${label.cluster}=${cluster}`, label.build] };
  const left = await engineCall(
    'listing networks',
    () => docker.listNetworks({ filters: JSON.stringify(filters) }),
    options,
  );
  const names = left.map(({ Name }) => Name).filter((name) => !builds.has(name));
  let failure: unknown;
  // One after the other: with many at once an engine may hang.
  for (const name of names) await removeNetwork(context, name).catch((error: unknown) => (failure = error));
  if (failure !== undefined) throw failure;
}

function notFoundIsFine(error: unknown): void {
  if (!hasCode(error, 'not_found') && !isStatus(error, 404)) throw error;
}

/** Tag → image, of what the builds before left for the next. */
async function taggedImages(
  { docker, cluster }: DockerContext,
  cache: string,
  options: CallOptions,
): Promise<Map<string, string>> {
  const filters = { reference: [`${buildRepository(cluster)}:${cache}`, `${buildRepository(cluster)}:${cache}-*`] };
  const rows = await engineCall(
    'listing images of builds',
    (abortSignal) => {
      const request = { filters, abortSignal };
      return docker.listImages(request);
    },
    options,
  );
  return new Map(rows.flatMap((row) => (row.RepoTags ?? []).map((tag) => [tag, row.Id] as const)));
}

/** The ends of all stages keep their names until the next build: by them its steps are found done. */
async function keep(
  context: ImageContext,
  cache: string,
  steps: BuildSteps,
  before: ReadonlyMap<string, string>,
  options: CallOptions,
): Promise<void> {
  const { docker, cluster } = context;
  const repository = buildRepository(cluster);
  const kept = new Set([`${repository}:${cache}`]);
  for (const [place, id] of steps.stageEnds.slice(0, -1).entries()) {
    const tag = `${cache}-${place}`;
    await engineCall('naming a stage', () => docker.getImage(id).tag({ repo: repository, tag }), options);
    kept.add(`${repository}:${tag}`);
  }
  for (const tag of before.keys()) if (!kept.has(tag)) await removeQuietly(context, tag);
  const now = new Set<string>();
  for (const tag of kept) now.add(await imageId(context, tag, options));
  for (const id of new Set(before.values())) if (!now.has(id)) await removeQuietly(context, id);
}

/** From the newest to the oldest, for each stands on the one before it. What others stand on, or have a name for, stays. */
async function removeMade(context: DockerContext, steps: BuildSteps): Promise<void> {
  for (const id of steps.made.toReversed()) await removeQuietly(context, id);
}

async function removeQuietly({ docker }: DockerContext, id: string): Promise<void> {
  try {
    await engineCall('removing what a build left', () => docker.getImage(id).remove({}), {});
  } catch (error) {
    if (!hasCode(error, 'not_found', 'conflict')) throw error;
  }
}
