/** Of which blobs artifacts are made. */
import type { Deps } from '../deps.ts';
import { blobsOf, resultMeta } from '../images/image-blobs.ts';
import type { Artifact } from '../model.ts';
import { appType, artifactType, releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';

/** Its blobs, and the record that it is deployed by again. */
export function madeOf({ image, meta }: Pick<Artifact, 'image' | 'meta'>): string[] {
  const record = meta[resultMeta];
  return [...blobsOf(image), ...(record === undefined ? [] : [record])];
}

/** All that the releases of these apps are made of. */
export async function blobsOfApps(
  { resources }: Pick<Deps, 'resources'>,
  isAmong: (app: AppResource) => boolean,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const [apps, releases, artifacts] = await Promise.all([
    resources.list(appType, { signal }),
    resources.list(releaseType, { signal }),
    resources.list(artifactType, { signal }),
  ]);
  const appIds = new Set(apps.filter(isAmong).map(({ id }) => id));
  const had = new Set(releases.flatMap(({ spec }) => (appIds.has(spec.appId) ? (spec.artifactId ?? []) : [])));
  return new Set(artifacts.flatMap(({ id, spec }) => (had.has(id) ? madeOf(spec) : [])));
}
