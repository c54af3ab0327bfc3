/** Images as archives that the engine loads: it checks every layer against the configuration, which is known by its digest. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { hasCode } from '@flynn/kit/errors';
import { pack } from 'tar-stream';
import type { CallOptions } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import { readProgress } from './images.ts';

const loadDeadlineMs = 15 * 60_000;

export type ArchivedImage = {
  tag: string;
  /** JSON. */
  config: string;
  /** Lowest first. Those without a file are named only: the engine has them, below the others and in this order. */
  layers: readonly ArchivedLayer[];
};
export type ArchivedLayer = { diffId: string; file?: { path: string; sizeBytes: number } };

/** Of a load that failed: whether to give the engine all it names may be better. Some want it, also of layers they have. */
export function wantsAll(error: unknown): boolean {
  return !hasCode(error, 'cancelled', 'unavailable', 'exhausted', 'timeout');
}

export async function loadArchive(
  { docker }: DockerContext,
  image: ArchivedImage,
  options: CallOptions,
): Promise<void> {
  await engineCall(
    `loading ${image.tag}`,
    async (abortSignal) => {
      const archive = archiveOf(image);
      try {
        await readProgress(await docker.loadImage(archive, { quiet: true, abortSignal }));
      } finally {
        archive.destroy();
      }
    },
    { ...options, deadlineMs: loadDeadlineMs },
  );
}

function archiveOf({ tag, config, layers }: ArchivedImage): Readable {
  const tar = pack();
  const configName = `${createHash('sha256').update(config).digest('hex')}.json`;
  const nameOf = ({ diffId }: ArchivedLayer): string => `${diffId.slice('sha256:'.length)}.tar`;
  const fill = async (): Promise<void> => {
    tar.entry({ name: configName }, config);
    for (const layer of layers) {
      const { file } = layer;
      if (file === undefined) continue;
      await pipeline(createReadStream(file.path), tar.entry({ name: nameOf(layer), size: file.sizeBytes }));
    }
    const manifest = [{ Config: configName, RepoTags: [tag], Layers: layers.map(nameOf) }];
    tar.entry({ name: 'manifest.json' }, JSON.stringify(manifest));
    tar.finalize();
  };
  // The reader of the tar learns of a failure.
  fill().catch((error: unknown) => tar.destroy(error instanceof Error ? error : new Error(String(error))));
  return Readable.from(tar);
}
