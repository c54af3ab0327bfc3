/** Is a source built by buildpacks, or does it bring a Dockerfile? */
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { parseAppJson } from '@flynn/controller/apps/app-json';
import { FlynnError } from '@flynn/kit/errors';
import { extract } from 'tar-stream';

export type SourceKind = 'slug' | 'dockerfile';

/** What says more than that there is a Dockerfile: somebody chose buildpacks. */
const buildpacksFile = '.buildpacks';
const maxTextBytes = 1024 ** 2;

/** Of the archive of a repository. One that is not there or cannot be read the build tells of. */
export async function sourceKindOf(open: () => Promise<Readable>, signal: AbortSignal): Promise<SourceKind> {
  try {
    return await kindOf(await open(), signal);
  } catch (error) {
    if (signal.aborted || (error instanceof FlynnError && error.code !== 'not_found')) throw error;
    return 'slug';
  }
}

async function kindOf(source: Readable, signal: AbortSignal): Promise<SourceKind> {
  const archive = extract();
  let hasDockerfile = false;
  let hasBuildpacks = false;
  const read = async (): Promise<void> => {
    for await (const entry of archive) {
      const { name, type, size } = entry.header;
      if (type === 'file' && name === 'Dockerfile') hasDockerfile = true;
      if (type === 'file' && name === buildpacksFile) hasBuildpacks ||= size > 0;
      if (type === 'file' && name === 'app.json' && size <= maxTextBytes) {
        hasBuildpacks ||= namesBuildpacks(await text(entry));
      }
      entry.resume();
    }
  };
  await Promise.all([read(), pipeline(source, archive, { signal })]);
  return hasDockerfile && !hasBuildpacks ? 'dockerfile' : 'slug';
}

/** One that cannot be read is told of by the build. */
function namesBuildpacks(json: string): boolean {
  try {
    return (parseAppJson(json).buildpacks ?? []).length > 0;
  } catch (error) {
    if (error instanceof FlynnError) return false;
    throw error;
  }
}
