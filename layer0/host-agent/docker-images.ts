/** Images on Docker by name: there, or pulled. And what is stored under the cluster's label. */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { CallOptions, ImageInfo } from './engine.ts';
import type { DockerContext } from './docker-containers.ts';
import { engineCall } from './docker-errors.ts';
import { label } from './labels.ts';

const pullDeadlineMs = 15 * 60_000;

export async function imageId({ docker }: DockerContext, name: string, options: CallOptions): Promise<string> {
  const info = await engineCall(
    `looking for image ${name}`,
    (abortSignal) => {
      const request = { manifests: false, abortSignal };
      return docker.getImage(name).inspect(request);
    },
    options,
  );
  return info.Id;
}

export async function ensureNamedImage(context: DockerContext, name: string, options: CallOptions): Promise<string> {
  try {
    return await imageId(context, name, options);
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
  }
  await pull(context, name, options);
  return imageId(context, name, options);
}

async function pull({ docker }: DockerContext, name: string, options: CallOptions): Promise<void> {
  const doing = `could not pull ${name}`;
  try {
    await engineCall(doing, async (abortSignal) => readProgress(await docker.pull(name, { abortSignal })), {
      ...options,
      deadlineMs: pullDeadlineMs,
    });
  } catch (error) {
    if (hasCode(error, 'cancelled', 'unavailable')) throw error;
    // The engine says 500 and 404 for registries that are away and images that do not exist, by mood.
    const hint = 'build or load it on the host, or check its name and that the registry is reachable';
    throw new FlynnError('not_found', `${messageOf(error)}; ${hint}`, { cause: error });
  }
}

type Progress = { stream?: string; error?: string };

/** Reads a build's or pull's progress to its end; an error in it is thrown. Answers the text. */
export async function readProgress(stream: NodeJS.ReadableStream): Promise<string> {
  let rest = '';
  let text = '';
  const take = (line: string) => {
    if (line.trim() === '') return;
    const progress = JSON.parse(line) as Progress;
    if (progress.error !== undefined) throw new FlynnError('invalid', progress.error);
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

export async function listImages({ docker, cluster }: DockerContext, options: CallOptions): Promise<ImageInfo[]> {
  const filters = { label: [`${label.cluster}=${cluster}`] };
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
    refs: row.RepoTags ?? [],
    labels: row.Labels ?? {},
    createdAtMs: row.Created * 1000,
    sizeBytes: row.Size,
  }));
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
