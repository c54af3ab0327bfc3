/** Whole images from the blob store: what the engine lacks of one is fetched and handed to it as an archive it loads. */
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { maxImageConfigBytes } from '@flynn/scheduler/job-template';
import type { Image } from '@flynn/scheduler/job-template';
import { z } from 'zod';
import type { CallOptions, FetchBlob } from '../engine/engine.ts';
import { loadArchive, wantsAll } from './archives.ts';
import type { ArchivedLayer } from './archives.ts';
import { engineCall } from './errors.ts';
import { imageId, imageIfThere, listImages } from './images.ts';
import type { ImageContext } from './images.ts';
import { label, loadedRepository } from '../engine/labels.ts';
import type { Labels } from '../engine/engine.ts';
import type { ImageDisks } from '../images/disks.ts';
import { ImageRoom } from '../images/room.ts';
import { allOrNothing, saveBlob, unpackLayer } from '../images/layers.ts';

export type WholeImage = Extract<Image, { config: unknown }>;
type LoadContext = ImageContext & { fetchBlob: FetchBlob; scratchDir: string; disks: ImageDisks };

const fetchedAtOnce = 3;
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

const configSchema = z.looseObject({
  architecture: z.string().optional(),
  config: z.looseObject({ Labels: z.record(z.string(), z.string()).nullish() }).nullish(),
  rootfs: z.looseObject({ type: z.literal('layers'), diff_ids: z.array(z.string().regex(/^sha256:[0-9a-f]{64}$/)) }),
});

/** The tag it has on every host. */
export function loadedTag(cluster: string, { config }: WholeImage): string {
  return `${loadedRepository(cluster)}:${config.digest.slice('sha256:'.length, 'sha256:'.length + 40)}`;
}

/** Answers its tag. */
export async function ensureLoadedImage(
  context: LoadContext,
  image: WholeImage,
  options: CallOptions,
): Promise<string> {
  const tag = loadedTag(context.cluster, image);
  if ((await imageIfThere(context, tag, options)) !== undefined) return tag;
  if (image.config.sizeBytes > maxImageConfigBytes) throw configTooLarge(image.config.digest);
  await mkdir(context.scratchDir, { recursive: true });
  const dir = await mkdtemp(join(context.scratchDir, 'image-'));
  try {
    const path = join(dir, 'config');
    const config = await context.fetchBlob(image.config.digest, options);
    await saveBlob(config, image.config.digest, { path, check: upToConfigSize, ...options });
    const { text, diffIds } = ownConfig(await readFile(path, 'utf8'), image, context.cluster);
    const known = await knownLayers(context, diffIds, options);
    const load = async (from: number): Promise<void> => {
      using room = new ImageRoom({ disks: context.disks });
      const layers = await fetchLayers(context, image, diffIds, { from, dir, room, ...options });
      await room.look();
      await loadArchive(context, { tag, config: text, layers }, options);
    };
    try {
      await load(known);
    } catch (error) {
      // Or gone since we looked.
      if (known === 0 || !wantsAll(error)) throw error;
      await load(0);
    }
    await imageId(context, tag, options);
    return tag;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/**
 * The image's configuration with our labels and without what its maker says in our name: containers inherit the labels of
 * their image, and by ours the agent knows what they may reach. The same on every host.
 */
export function ownConfig(
  json: string,
  image: WholeImage,
  cluster: string,
): { text: string; diffIds: readonly string[] } {
  const bad = (why: string): FlynnError =>
    new FlynnError('invalid', `the image ${image.config.digest} cannot be used: ${why}`);
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw bad('its configuration is no JSON');
  }
  const parsed = configSchema.safeParse(value);
  if (!parsed.success) throw bad(`its configuration is not as it should be: ${z.prettifyError(parsed.error)}`);
  const { data: config } = parsed;
  const own = architectures[process.arch] ?? process.arch;
  if (config.architecture !== undefined && config.architecture !== own) {
    throw bad(`it is made for ${config.architecture}, this host is ${own}`);
  }
  const { diff_ids: diffIds } = config.rootfs;
  if (diffIds.length !== image.layers.length) {
    throw bad(`its configuration names ${diffIds.length} layers, and there are ${image.layers.length}`);
  }
  const foreign = Object.entries(config.config?.Labels ?? {}).filter(([name]) => !name.startsWith('flynn.'));
  const labels: Labels = {
    ...Object.fromEntries(foreign),
    [label.cluster]: cluster,
    [label.loaded]: image.config.digest,
  };
  return { text: JSON.stringify({ ...config, config: { ...config.config, Labels: labels, OnBuild: null } }), diffIds };
}

async function* upToConfigSize(chunks: AsyncIterable<Buffer>, digest: string): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > maxImageConfigBytes) throw configTooLarge(digest);
    yield chunk;
  }
}

function configTooLarge(digest: string): FlynnError {
  const limit = `${maxImageConfigBytes / 1024 ** 2} MiB`;
  return new FlynnError('invalid', `the image ${digest} cannot be used: its configuration has more than ${limit}`);
}

/** How many of these layers, from the lowest on, some image here has already. */
async function knownLayers(context: ImageContext, diffIds: readonly string[], options: CallOptions): Promise<number> {
  let most = 0;
  for (const { id } of await listImages(context, { ...options, all: true })) {
    try {
      const info = await engineCall(
        `looking at image ${id}`,
        (abortSignal) => {
          const request = { manifests: false, abortSignal };
          return context.docker.getImage(id).inspect(request);
        },
        options,
      );
      const there: readonly string[] = info.RootFS.Layers ?? [];
      const end = diffIds.findIndex((diffId, place) => there[place] !== diffId);
      most = Math.max(most, end === -1 ? diffIds.length : end);
    } catch (error) {
      if (!hasCode(error, 'not_found')) throw error;
    }
  }
  return most;
}

/** Those below `from` are named only. */
async function fetchLayers(
  { fetchBlob }: LoadContext,
  image: WholeImage,
  diffIds: readonly string[],
  { from, dir, room, ...options }: CallOptions & { from: number; dir: string; room: ImageRoom },
): Promise<ArchivedLayer[]> {
  const layers: ArchivedLayer[] = diffIds.map((diffId) => ({ diffId }));
  // The same layer may be there twice.
  const wanted = new Map(image.layers.map((layer, place) => [diffIds[place] ?? '', { layer, place }] as const));
  const remaining = [...wanted.values()].filter(({ place }) => place >= from).values();
  const lane = async (signal: AbortSignal): Promise<void> => {
    for (const { layer, place } of remaining) {
      const file = await unpackLayer(fetchBlob, layer.digest, { dir, name: `${place}.tar`, room, signal });
      const entry = layers[place];
      if (entry !== undefined) entry.file = file;
    }
  };
  await allOrNothing(
    Array.from({ length: fetchedAtOnce }, () => lane),
    options,
  );
  // The engine has each of them, whether it is given it once or several times.
  const sizes = new Map(layers.map(({ diffId, file }) => [diffId, file?.sizeBytes]));
  for (const { diffId, file } of layers.slice(from)) if (file === undefined) room.expect(sizes.get(diffId) ?? 0);
  return layers;
}
