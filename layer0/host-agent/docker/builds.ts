/**
 * Images built from a Dockerfile by the engine.
 *
 * A step of a build is a container the engine makes by itself. It runs in a network of its build's own, by which it is known:
 * apart from jobs and other builds, so the cluster is to it what it is to any machine outside, and what its image says of
 * itself in our labels is believed by nobody (`isOurs`). The engine holds its memory; processes and disk are ours to hold.
 */
import type Docker from 'dockerode';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { pause, systemClock } from '@flynn/kit/clock';
import { LineSplitter } from '@flynn/kit/lines';
import { retry } from '@flynn/kit/retry';
import { z } from 'zod';
import type { CallOptions, ImageBuild } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall, isStatus } from './errors.ts';
import { BuildSteps, readBuildProgress } from '../builds/progress.ts';
import { checkBases } from './base-images.ts';
import { imageId } from './images.ts';
import type { ImageContext } from './images.ts';
import type { DockerUsage } from './usage.ts';
import { buildBridge, buildNetwork, buildRepository, label } from '../engine/labels.ts';

/** Who asked holds the build to its own limit; this is for when nobody does any more. */
const buildDeadlineMs = 24 * 60 * 60_000;
const diskLookMs = 2_000;
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

const engineEvent = z.object({
  Action: z.string(),
  Actor: z.object({
    ID: z.string(),
    Attributes: z.object({ name: z.string().optional(), container: z.string().optional() }),
  }),
});

type StepUsage = Pick<DockerUsage, 'besideBytes' | 'forget'>;

/** Looks after the containers of one build's steps while it goes on. */
class StepGuard {
  readonly #context: DockerContext;
  readonly #network: string;
  readonly #usage: StepUsage;
  readonly #limits: ImageBuild['limits'];
  readonly #listening = Promise.withResolvers<void>();
  /** Rejects when a step runs without its limit of processes. */
  readonly #unlimited = Promise.withResolvers<never>();
  readonly #ids = new Set<string>();
  readonly #outOfMemory = Promise.withResolvers<void>();
  wasOutOfMemory = false;

  constructor(context: DockerContext, network: string, usage: StepUsage, { limits }: ImageBuild) {
    this.#context = context;
    this.#network = network;
    this.#usage = usage;
    this.#limits = limits;
  }

  /** A step that starts before would have no limit of processes. */
  get isListening(): Promise<void> {
    return this.#listening.promise;
  }

  /** Resolves once it is. */
  get outOfMemory(): Promise<void> {
    return this.#outOfMemory.promise;
  }

  /** Until the signal aborts; throws `exhausted` when the steps have written too much. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.race([Promise.all([this.#follow(signal), this.#measure(signal)]), this.#unlimited.promise]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const filters = JSON.stringify({ type: ['container', 'network'], event: ['connect', 'start', 'oom'] });
    // The engine answers a moment before it subscribes. What it says of another build of that name is not looked back at.
    const since = systemClock.now() / 1_000;
    try {
      const request = { filters, since, abortSignal: signal };
      const stream = await this.#context.docker.getEvents(request);
      this.#listening.resolve();
      const lines = new LineSplitter({ maxBytes: 1024 ** 2 });
      for await (const chunk of stream) {
        for (const line of lines.push(Buffer.from(chunk))) if (line.trim() !== '') this.#take(line, signal);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#listening.resolve();
      throw new FlynnError('unavailable', `the engine cannot be followed while it builds: ${messageOf(error)}`);
    }
  }

  /** A container is in its network before it starts. Nothing is waited for: the next line may say that memory ran out. */
  #take(line: string, signal: AbortSignal): void {
    const { Action, Actor } = engineEvent.parse(JSON.parse(line));
    if (Action === 'connect') {
      const { name, container } = Actor.Attributes;
      if (name === this.#network && container !== undefined) this.#ids.add(container);
    } else if (this.#ids.has(Actor.ID)) {
      if (Action === 'oom') {
        this.wasOutOfMemory = true;
        this.#outOfMemory.resolve();
      } else this.#limit(Actor.ID, signal).catch(this.#unlimited.reject);
    }
  }

  async #limit(id: string, signal: AbortSignal): Promise<void> {
    const container = this.#context.docker.getContainer(id);
    const request = { PidsLimit: this.#limits.pids };
    try {
      await engineCall('limiting a step', (abortSignal) => container.update({ ...request, abortSignal }), { signal });
    } catch (error) {
      // It has ended.
      if (!hasCode(error, 'not_found', 'conflict', 'internal', 'cancelled')) throw error;
    }
  }

  async #measure(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(diskLookMs, signal);
      if (signal.aborted) return;
      const rows = await stepContainers(this.#context, this.#network, { signal, size: true });
      const written = rows.reduce((sum, row) => sum + ('SizeRw' in row ? Number(row.SizeRw ?? 0) : 0), 0);
      const beside = await besideOf(
        this.#usage,
        rows.map(({ Id }) => Id),
        { signal },
      );
      const bytes = written + beside;
      if (bytes <= this.#limits.diskBytes) continue;
      const size = (value: number): string => `${Math.round(value / 1024 ** 2)} MB`;
      throw new FlynnError(
        'exhausted',
        `a step of the build wrote ${size(bytes)} to the disk; the limit is ${size(this.#limits.diskBytes)}`,
      );
    }
  }
}

/** What steps have in volumes, as VOLUME gives them, and in files of the engine's: their own sizes say nothing of it. */
async function besideOf(usage: StepUsage, ids: readonly string[], options: CallOptions): Promise<number> {
  let bytes = 0;
  for (const id of ids) {
    try {
      bytes += await usage.besideBytes(id, options);
    } catch (error) {
      // It has ended, or has more files than can be counted in time: its own size still holds it.
      if (!hasCode(error, 'not_found', 'conflict', 'timeout')) throw error;
    } finally {
      usage.forget(id);
    }
  }
  return bytes;
}

async function stepContainers(
  { docker }: DockerContext,
  network: string,
  { size = false, ...options }: CallOptions & { size?: boolean },
): Promise<Docker.ContainerInfo[]> {
  const rows = await engineCall(
    'listing the steps of a build',
    (abortSignal) => docker.listContainers({ all: true, size, filters: { network: [network] }, abortSignal }),
    options,
  );
  return rows.filter((row) => row.HostConfig.NetworkMode === network);
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
