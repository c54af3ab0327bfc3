/** The names of images as the engine lists them. */
import type { JobTemplate } from '@flynn/scheduler/job-template';

/** `redis` is listed as `redis:latest`, `docker.io/library/redis:7` as `redis:7`. */
export function listedName(name: string): string {
  const short = name.replace(/^docker\.io\/(?:library\/)?/, '');
  if (short.includes('@')) return short;
  return short.slice(short.lastIndexOf('/') + 1).includes(':') ? short : `${short}:latest`;
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
