/** The platform's images from a bundle into an engine, and from an engine into a bundle. */
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { readProgress } from '@flynn/host-agent/docker/images';
import { fromZstd } from '@flynn/kit/compression';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type Docker from 'dockerode';
import { hasImage } from '../images/debian.ts';
import { type Bundle, imagesFile, imagesOf, root } from '../origin.ts';

/** Minutes on a slow disk; an engine that hangs is not waited for for ever. */
const loadMs = 60 * 60_000;

const slowEngine =
  'see what it does (journalctl -u docker) and whether its disk is full or failing, then run this again';

/** How many were missing. They are one archive, of which the engine takes the layers that it lacks. */
export async function loadImages(docker: Docker, bundle: Bundle, report: (line: string) => void): Promise<number> {
  const tags = [...imagesOf(bundle).values()];
  const there = await Promise.all(tags.map((tag) => hasImage(docker, tag)));
  const missing = tags.filter((_tag, index) => there[index] !== true);
  if (missing.length === 0) return 0;
  report(`loading ${missing.length} images`);
  const file = join(root, imagesFile);
  const archive = fromZstd();
  const reading = new Promise<void>((resolve, reject) => {
    pipeline(createReadStream(file, { highWaterMark: 1024 ** 2 }), archive, (error) => {
      if (error) reject(new FlynnError('invalid', `${file} is damaged: ${messageOf(error)}`, { cause: error }));
      else resolve();
    });
  });
  const load = async (): Promise<void> => {
    const signal = withDeadline(loadMs);
    try {
      await readProgress(await docker.loadImage(archive, { quiet: true, abortSignal: signal }));
    } catch (error) {
      if (!signal.aborted) throw error;
      const minutes = loadMs / 60_000;
      throw new FlynnError('timeout', `the engine had not loaded the images after ${minutes} minutes: ${slowEngine}`, {
        cause: error,
      });
    }
  };
  try {
    await Promise.all([load(), reading]);
  } finally {
    archive.destroy();
  }
  return missing.length;
}
