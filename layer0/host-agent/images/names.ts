/** The names of images as the engine lists them. */
import { FlynnError } from '@flynn/kit/errors';
import type { JobTemplate } from '@flynn/scheduler/job-template';

/** `redis` is listed as `redis:latest`, `docker.io/library/redis:7` as `redis:7`. */
export function listedName(name: string): string {
  const short = name.replace(/^(?:index\.)?docker\.io\/(?:library\/)?/, '');
  if (short.includes('@')) return short;
  return short.slice(short.lastIndexOf('/') + 1).includes(':') ? short : `${short}:latest`;
}

/** A short name of hex digits alone (`cafe`) an engine may take for the beginning of an id; with its tag it is a name. */
export function nameNotId(name: string): string {
  return /^[0-9a-f]{1,63}$/i.test(name) ? `${name}:latest` : name;
}

/**
 * Whether an engine finds by it what it was given or has built for some app: by the beginning of an id, or by a name that hosts
 * give such images, those of one cluster or of any. Nobody has an image for knowing, or guessing, what it is called.
 */
export function isLocalName(name: string, cluster?: string): boolean {
  if (/^(?:sha256:)?[0-9a-f]*$/i.test(name)) return true;
  const owner = /^flynn-([^/]*)\//i.exec(listedName(name))?.[1];
  return owner !== undefined && (cluster === undefined || owner === cluster);
}

export function localNameRefusal(name: string): FlynnError {
  return new FlynnError(
    'invalid',
    `"${name}" names no image of a registry, but what hosts have of some app: write REPOSITORY:TAG, or push the app itself`,
  );
}

/** What templates ask for by name: images, and bases of stacks. */
export function imageNamesOf(templates: readonly Pick<JobTemplate, 'image'>[]): ReadonlySet<string> {
  return new Set(
    templates.flatMap(({ image }) => {
      if ('config' in image) return [];
      return [listedName('name' in image ? image.name : image.base)];
    }),
  );
}
