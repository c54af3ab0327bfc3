/** Images on Docker by name: there, or pulled. And what is stored under the cluster's label. */
import { request } from 'node:http';
import type { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { FlynnError, asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { KeyedMutex } from '@flynn/kit/queue';
import type { FetchImages } from '../cluster/peer-images.ts';
import type { CallOptions, ImageInfo } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import { label } from '../engine/labels.ts';
import { PullSilence, maxWaits } from '../images/pull-silence.ts';
import type { PullProgress } from '../images/pull-silence.ts';

export type ImageContext = DockerContext & {
  /** Told of images that came from a registry: what was not here before may go again. */
  onPulled?: (name: string) => void;
  /** Asked before a registry is. */
  fetchImages?: FetchImages;
  socketPath: string;
  /** A pull of which nothing is heard for so long is given up. Default 120 s. */
  pullSilenceMs?: number;
  /** One transfer per image, whoever wants it. */
  transfers: KeyedMutex;
  /** Networks of the builds that are under way. */
  builds: Set<string>;
};

const pullDeadlineMs = 15 * 60_000;
/** An engine tells of what it receives and unpacks all the time: one that does not for so long hears nothing from the registry. */
const pullSilenceMs = 120_000;

export async function imageId(context: DockerContext, name: string, options: CallOptions): Promise<string> {
  return (await inspectImage(context, name, options)).Id;
}

export async function imageEnv(
  context: DockerContext,
  name: string,
  options: CallOptions,
): Promise<Record<string, string>> {
  // An image without any says so with null, one that was made by other tools may have no configuration at all.
  const { Config }: Partial<Docker.ImageInspectInfo> = await inspectImage(context, name, options);
  const pairs: readonly string[] = Config?.Env ?? [];
  return Object.fromEntries(
    pairs.map((pair): [string, string] => {
      const [key = '', value = ''] = pair.split(/=(.*)/s);
      return [key, value];
    }),
  );
}

export async function inspectImage(
  { docker }: DockerContext,
  name: string,
  options: CallOptions,
): Promise<Docker.ImageInspectInfo> {
  return engineCall(
    `looking for image ${name}`,
    (abortSignal) => {
      const request = { manifests: false, abortSignal };
      return docker.getImage(name).inspect(request);
    },
    options,
  );
}

export async function ensureNamedImage(context: ImageContext, name: string, options: CallOptions): Promise<string> {
  const there = await imageIfThere(context, name, options);
  if (there !== undefined) return there;
  const bring = async (): Promise<string> => {
    // Whoever waited finds what the one before has brought.
    const brought = await imageIfThere(context, name, options);
    if (brought !== undefined) return brought;
    if (!(await loadFetched(context, [name], options))) await pull(context, name, options);
    context.onPulled?.(name);
    return imageId(context, name, options);
  };
  return await context.transfers.run(name, bring, options);
}

/** Its id. */
export async function imageIfThere(
  context: DockerContext,
  name: string,
  options: CallOptions,
): Promise<string | undefined> {
  try {
    return await imageId(context, name, options);
  } catch (error) {
    if (hasCode(error, 'not_found')) return undefined;
    throw error;
  }
}

/** Whether another host had it. Where a transfer breaks off the next host is asked, and a registry in the end. */
async function loadFetched(context: ImageContext, names: readonly string[], options: CallOptions): Promise<boolean> {
  const what = names.join(', ');
  for await (const archive of context.fetchImages?.(names, options) ?? []) {
    const load = async (abortSignal: AbortSignal): Promise<unknown> =>
      readProgress(await context.docker.loadImage(archive, { quiet: true, abortSignal }));
    // Told apart from an engine that does not answer: the next host may do better.
    const broken = new AbortController();
    archive.once('error', (error) =>
      broken.abort(new FlynnError('conflict', `the transfer of ${what} broke off: ${messageOf(error)}`)),
    );
    const signal = options.signal === undefined ? broken.signal : AbortSignal.any([options.signal, broken.signal]);
    try {
      await engineCall(`loading ${what}`, load, { ...options, signal, deadlineMs: pullDeadlineMs });
      for (const name of names) await imageId(context, name, options);
      return true;
    } catch (error) {
      if (!broken.signal.aborted && hasCode(error, 'cancelled', 'unavailable')) throw error;
    } finally {
      archive.destroy();
    }
  }
  return false;
}

/** What is missing comes in one archive, if some host has all of it: images of a platform share most of their layers. */
export async function prefetchImages(
  context: ImageContext,
  names: readonly string[],
  options: CallOptions,
): Promise<void> {
  const missing: string[] = [];
  for (const name of names) if ((await imageIfThere(context, name, options)) === undefined) missing.push(name);
  if (missing.length > 1) await context.transfers.run('several', () => loadFetched(context, missing, options), options);
  for (const name of missing) await ensureNamedImage(context, name, options);
}

/** The engine's client library exports one image at a time, each with all layers that several share. */
export async function exportImages(
  context: ImageContext,
  names: readonly string[],
  options: CallOptions,
): Promise<Readable> {
  for (const name of names) await imageId(context, name, options);
  const path = `/images/get?${names.map((name) => `names=${encodeURIComponent(name)}`).join('&')}`;
  const answered = Promise.withResolvers<Readable>();
  request({ socketPath: context.socketPath, path, ...options }, (response) => {
    if (response.statusCode === 200) return answered.resolve(response);
    response.resume();
    answered.reject(new FlynnError('unavailable', `the engine did not export images: ${response.statusCode}`));
    return undefined;
  })
    .once('error', (error) => answered.reject(asFlynnError(error)))
    .end();
  return await answered.promise;
}

/** For the host's own platform, unless another is named. */
export async function pull(
  context: ImageContext,
  name: string,
  { platform, ...options }: CallOptions & { platform?: string },
): Promise<void> {
  const doing = `could not pull ${name}`;
  const silenceMs = context.pullSilenceMs ?? pullSilenceMs;
  const silent = new AbortController();
  const why = (heard: 'nothing' | 'waiting') =>
    heard === 'nothing'
      ? `nothing was heard from its registry for ${silenceMs / 1_000} s`
      : `for ${(maxWaits * silenceMs) / 1_000} s it waited behind other pulls of the engine, or for a registry that says nothing`;
  using silence = new PullSilence(silenceMs, (heard) =>
    silent.abort(new FlynnError('not_found', `${doing}: ${why(heard)}`)),
  );
  const load = async (abortSignal: AbortSignal): Promise<unknown> =>
    readProgress(
      await context.docker.pull(name, { abortSignal, ...(platform === undefined ? {} : { platform }) }),
      (progress) => silence.hear(progress),
    );
  const signal = options.signal === undefined ? silent.signal : AbortSignal.any([options.signal, silent.signal]);
  try {
    await engineCall(doing, load, { signal, deadlineMs: pullDeadlineMs });
  } catch (error) {
    if (hasCode(error, 'cancelled', 'unavailable')) throw error;
    // The engine says 500 and 404 for registries that are away and images that do not exist, by mood.
    const hint = 'build or load it on the host, or check its name and that the registry is reachable';
    throw new FlynnError('not_found', `${messageOf(error)}; ${hint}`, { cause: error });
  }
}

/** `error` is the older word for what `errorDetail` says; engines are about to leave it out. */
type Progress = PullProgress & { stream?: string; error?: string; errorDetail?: { message?: string } };

/** Reads a build's or pull's progress to its end; an error in it is thrown. Answers the text. */
export async function readProgress(
  stream: NodeJS.ReadableStream,
  onHeard?: (progress: PullProgress) => void,
): Promise<string> {
  let rest = '';
  let text = '';
  const take = (line: string) => {
    if (line.trim() === '') return;
    const progress = JSON.parse(line) as Progress;
    const error = progress.errorDetail?.message ?? progress.error;
    if (error !== undefined) throw new FlynnError('invalid', error);
    onHeard?.(progress);
    text = (text + (progress.stream ?? '')).slice(-10_000);
  };
  for await (const chunk of stream) {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(take);
  }
  take(rest);
  return text;
}

export async function listImages(
  { docker, cluster }: DockerContext,
  options: CallOptions & { all?: boolean },
): Promise<ImageInfo[]> {
  const filters: Record<string, string[]> = options.all === true ? {} : { label: [`${label.cluster}=${cluster}`] };
  const rows = await engineCall(
    'listing images',
    (abortSignal) => {
      const request = { filters, abortSignal };
      return docker.listImages(request);
    },
    options,
  );
  return rows.map((row) => ({
    id: row.Id,
    refs: namesOf(row),
    labels: row.Labels ?? {},
    createdAtMs: row.Created * 1000,
    sizeBytes: row.Size,
  }));
}

/** By which it can be asked for and removed: of one that was pulled by its digest there is no tag. */
function namesOf({ RepoTags, RepoDigests }: { RepoTags?: string[]; RepoDigests?: string[] }): string[] {
  const isName = (text: string): boolean => !text.startsWith('<none>');
  const tags = (RepoTags ?? []).filter(isName);
  return tags.length > 0 ? tags : (RepoDigests ?? []).filter(isName);
}

export async function removeImage({ docker }: DockerContext, id: string, options: CallOptions): Promise<void> {
  try {
    await engineCall(
      `removing image ${id}`,
      (abortSignal) => {
        const request = { abortSignal };
        return docker.getImage(id).remove(request);
      },
      options,
    );
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
  }
}
