/** Stacks: a base image with layers on it, built once per host through the engine's build API. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack } from 'tar-stream';
import type { CallOptions, FetchBlob } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import { ensureNamedImage, imageBytes, imageIfThere, readProgress } from './images.ts';
import type { ImageContext } from './images.ts';
import { label, stackRepository } from '../engine/labels.ts';
import type { ImageDisks } from '../images/disks.ts';
import { ImageRoom } from '../images/room.ts';
import { unpackLayer } from '../images/layers.ts';

const buildDeadlineMs = 15 * 60_000;

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
    using room = new ImageRoom({ disks: context.disks, presentBytes: await imageBytes(context, below, options) });
    const layer = await unpackLayer(context.fetchBlob, top.digest, { dir, name, room, ...options });
    await room.look();
    await build(context, { tag, below, layer, digests }, options);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  return tag;
}

type LayerFile = { path: string; sizeBytes: number };

async function build(
  { docker, cluster }: DockerContext,
  stack: { tag: string; below: string; layer: LayerFile; digests: string[] },
  options: CallOptions,
): Promise<void> {
  const labels = { [label.cluster]: cluster, [label.stack]: stack.digests.join(',') };
  await engineCall(
    `building ${stack.tag}`,
    async (abortSignal) => {
      const context = buildContext(stack.below, stack.layer);
      try {
        const request = { t: stack.tag, labels, rm: true, forcerm: true, networkmode: 'none', abortSignal };
        await readProgress(await docker.buildImage(context, request));
      } finally {
        context.destroy();
      }
    },
    { ...options, deadlineMs: buildDeadlineMs },
  );
}

/** ADD unpacks tar files. */
function buildContext(below: string, { path, sizeBytes: size }: LayerFile): Readable {
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
