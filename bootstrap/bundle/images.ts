/** The platform's images from a bundle into an engine, and from an engine into a bundle. */
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { createZstdDecompress } from 'node:zlib';
import { readProgress } from '@flynn/host-agent/docker-images';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type Docker from 'dockerode';
import { hasImage } from '../images/debian.ts';
import { type Bundle, imagesFile, imagesOf, root } from '../origin.ts';

const loadMs = 15 * 60_000;

/** How many were missing. They are one archive, of which the engine takes the layers that it lacks. */
export async function loadImages(docker: Docker, bundle: Bundle, report: (line: string) => void): Promise<number> {
  const tags = [...imagesOf(bundle).values()];
  const there = await Promise.all(tags.map((tag) => hasImage(docker, tag)));
  const missing = tags.filter((_tag, index) => there[index] !== true);
  if (missing.length === 0) return 0;
  report(`loading ${missing.length} images`);
  const file = join(root, imagesFile);
  const archive = createZstdDecompress();
  const reading = new Promise<void>((resolve, reject) => {
    pipeline(createReadStream(file, { highWaterMark: 1024 ** 2 }), archive, (error) => {
      if (error) reject(new FlynnError('invalid', `${file} is damaged: ${messageOf(error)}`, { cause: error }));
      else resolve();
    });
  });
  const load = async (): Promise<void> => {
    const signal = withDeadline(loadMs);
    await readProgress(await docker.loadImage(archive, { quiet: true, abortSignal: signal }));
  };
  try {
    await Promise.all([load(), reading]);
  } finally {
    archive.destroy();
  }
  return missing.length;
}
