/** Stacks: a base image with layers on it, made once per host. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack } from 'tar-stream';
import { systemClock } from '@flynn/kit/clock';
import type Docker from 'dockerode';
import { z } from 'zod';
import type { CallOptions, FetchBlob, Labels } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { loadArchive, wantsAll } from './archives.ts';
import { engineCall } from './errors.ts';
import { ensureNamedImage, imageIfThere, inspectImage, readProgress } from './images.ts';
import type { ImageContext } from './images.ts';
import { label, stackRepository } from '../engine/labels.ts';
import type { ImageDisks } from '../images/disks.ts';
import { ImageRoom } from '../images/room.ts';
import { unpackLayer } from '../images/layers.ts';
import type { UnpackedLayer } from '../images/layers.ts';

const buildDeadlineMs = 15 * 60_000;

/** Pairs of a name and a value. */
const storageSchema = z.object({ DriverStatus: z.array(z.array(z.string())).nullish() });

export type Stack = { base: string; layers: { digest: string; sizeBytes: number }[] };

/** The same base and layers have the same tag on every host; another base under the same name has another. */
export function stackTag(cluster: string, baseId: string, digests: readonly string[]): string {
  const hash = createHash('sha256')
    .update([baseId, ...digests].join('\n'))
    .digest('hex');
  return `${stackRepository(cluster)}:${hash.slice(0, 40)}`;
}

/** Its tag, or its base where nothing is on that; undefined where it is to be made, or its base is not here. */
export async function stackIfThere(
  context: DockerContext,
  { base, layers }: Stack,
  options: CallOptions,
): Promise<string | undefined> {
  const baseId = await imageIfThere(context, base, options);
  if (baseId === undefined || layers.length === 0) return baseId && base;
  const digests = layers.map((layer) => layer.digest);
  const tag = stackTag(context.cluster, baseId, digests);
  return (await imageIfThere(context, tag, options)) && tag;
}

/**
 * Each layer goes on an image that has all below it, a stack of its own: apps that share their lower layers share those
 * images, and a changed app costs the host its own layer only. `ensureBelow` makes the image below, or finds it: one layer
 * after the other, so that of a stack there is one at a time on the disk, and how large what is below it is, is known.
 */
export async function ensureStack(
  context: ImageContext & { fetchBlob: FetchBlob; scratchDir: string; disks: ImageDisks },
  stack: Stack,
  ensureBelow: (below: Stack, options: { signal: AbortSignal }) => Promise<string>,
  options: { signal: AbortSignal },
): Promise<string> {
  const top = stack.layers.at(-1);
  const baseId = await ensureNamedImage(context, stack.base, options);
  if (top === undefined) return stack.base;
  const there = await stackIfThere(context, stack, options);
  if (there !== undefined) return there;
  const digests = stack.layers.map((layer) => layer.digest);
  const tag = stackTag(context.cluster, baseId, digests);
  const below = await ensureBelow({ base: stack.base, layers: stack.layers.slice(0, -1) }, options);
  await mkdir(context.scratchDir, { recursive: true });
  const dir = await mkdtemp(join(context.scratchDir, 'stack-'));
  try {
    const name = `${top.digest.replace('sha256:', '')}.tar`;
    const belowInfo = await inspectImage(context, below, options);
    using room = new ImageRoom({ disks: context.disks, presentBytes: belowInfo.Size });
    const layer = await unpackLayer(context.fetchBlob, top.digest, { dir, name, room, ...options });
    await room.look();
    const labels = { [label.cluster]: context.cluster, [label.stack]: digests.join(',') };
    await make(context, { tag, below, belowInfo, layer, labels }, options);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  return tag;
}

type Made = {
  tag: string;
  below: string;
  belowInfo: Docker.ImageInspectInfo;
  layer: UnpackedLayer;
  labels: Labels;
};

/**
 * Loaded it is written once less than built, and the engine packs nothing anew to learn its digest. An engine that wants what is
 * below too builds: to give it that would be to have it pack all of it first.
 */
async function make(context: DockerContext, stack: Made, options: CallOptions): Promise<void> {
  if (await keepsInContainerd(context, options)) return build(context, stack, options);
  try {
    await load(context, stack, options);
  } catch (error) {
    if (!wantsAll(error)) throw error;
    await build(context, stack, options);
  }
}

/** Such an engine wants all, and says so only once it has written what it was given. */
async function keepsInContainerd({ docker }: DockerContext, options: CallOptions): Promise<boolean> {
  const info: unknown = await engineCall('asking the engine about itself', () => docker.info(), options);
  const status = storageSchema.safeParse(info).data?.DriverStatus ?? [];
  return status.some(
    ([name, value]) => name === 'driver-type' && value?.startsWith('io.containerd.snapshotter') === true,
  );
}

async function load(
  context: DockerContext,
  { tag, belowInfo, layer, labels }: Made,
  options: CallOptions,
): Promise<void> {
  const { Architecture: architecture, Os: os, RootFS } = belowInfo;
  // An image that was made by other tools may have no configuration at all.
  const { Config: config }: Partial<Docker.ImageInspectInfo> = belowInfo;
  const there = (RootFS.Layers ?? []).map((diffId) => ({ diffId }));
  const layers = [...there, { diffId: layer.diffId, file: layer }];
  const own = {
    architecture,
    os,
    created: new Date(systemClock.now()).toISOString(),
    // What is below has its triggers for whoever builds on it with a Dockerfile.
    config: { ...config, Labels: { ...config?.Labels, ...labels }, OnBuild: null },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
  };
  await loadArchive(context, { tag, config: JSON.stringify(own), layers }, options);
}

async function build({ docker }: DockerContext, stack: Made, options: CallOptions): Promise<void> {
  await engineCall(
    `building ${stack.tag}`,
    async (abortSignal) => {
      const context = buildContext(stack.below, stack.layer);
      try {
        const { tag, labels } = stack;
        const request = { t: tag, labels, rm: true, forcerm: true, networkmode: 'none', abortSignal };
        await readProgress(await docker.buildImage(context, request));
      } finally {
        context.destroy();
      }
    },
    { ...options, deadlineMs: buildDeadlineMs },
  );
}

/** ADD unpacks tar files. */
function buildContext(below: string, { path, sizeBytes: size }: UnpackedLayer): Readable {
  const tar = pack();
  const name = basename(path);
  const fill = async () => {
    tar.entry({ name: 'Dockerfile' }, `FROM ${below}\nADD ${name} /\n`);
    // The build cache compares content and these fields: times must not differ between builds.
    await pipeline(createReadStream(path), tar.entry({ name, size, mtime: new Date(0) }));
    tar.finalize();
  };
  // The reader of the tar learns of a failure.
  fill().catch((error: unknown) => tar.destroy(error instanceof Error ? error : new Error(String(error))));
  return Readable.from(tar);
}
