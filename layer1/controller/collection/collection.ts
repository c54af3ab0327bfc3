/**
 * Takes away what nothing refers to any more: releases nobody goes back to, their artifacts, and the blobs behind those.
 *
 * INVARIANTS. Where one record cannot be read nothing goes that it may refer to: it is thrown (isUnreadable).
 * An artifact is marked before it is looked for once more and removed, and a release is made comparing its
 * artifact: whoever of the two comes first, no release is left without its artifact.
 */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { removePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { compareOf, isUnreadable } from '@flynn/resource/record';
import type { Compare } from '@flynn/store/store';
import { isRestoring } from '../backup/restore-state.ts';
import type { Deps } from '../deps.ts';
import { valuesOf } from '../mirrors/cell-view.ts';
import { expiredReleases, keptSlugs } from './release-expiry.ts';
import { appType, artifactType, deploymentType, formationType, releaseType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';

/** One that was made a moment ago is about to get its release. */
const artifactGraceMs = 60 * 60_000;

type Options = { signal: AbortSignal; epoch?: Compare };

/** Of all apps but the platform's own, which are made of images. Answers how many releases went. */
export async function collectReleases(deps: Deps, options: Options): Promise<number> {
  const { resources } = deps;
  const { signal } = options;
  // Until its apps are live again, of none it is known which release they ran.
  if (await isRestoring(deps.store, { signal })) return 0;
  const [apps, releases, artifacts] = await Promise.all([
    resources.list(appType, {
      signal,
      isStrict: true,
      where: (app) => app.deletingSince === undefined && !app.spec.isSystem,
    }),
    resources.list(releaseType, { signal, isStrict: true }),
    resources.list(artifactType, { signal, isStrict: true }),
  ]);
  // Whole images take room as slugs do, and are gone back to like them.
  const isStored = ({ spec }: (typeof artifacts)[number]) => spec.type === 'slug' || 'config' in spec.image;
  const slugs = new Set(artifacts.filter(isStored).map(({ id }) => id));
  // Once, and not for each app. A deployment that begins from here on changes its app: nothing of that goes.
  const inUse = deployedNow(deps);
  const ofApps = Map.groupBy(releases, ({ spec }) => spec.appId);
  const artifactIds = new Set<string>();
  let count = 0;
  for (const app of apps) {
    for (const release of expiredOf(app, ofApps.get(app.id) ?? [], { inUse, slugs, nowMs: deps.now() })) {
      try {
        await removeRelease(deps, app, release, options);
        count += 1;
        if (release.spec.artifactId !== undefined) artifactIds.add(release.spec.artifactId);
      } catch (error) {
        // The app was changed, or it is being deployed: next time.
        if (!hasCode(error, 'conflict')) throw error;
      }
    }
  }
  await collectArtifacts(deps, artifactIds, options);
  if (count > 0) deps.log.info({ releases: count }, 'old releases collected');
  return count;
}

function expiredOf(
  app: AppResource,
  releases: readonly ReleaseResource[],
  { inUse, slugs, nowMs }: { inUse: ReadonlySet<string>; slugs: ReadonlySet<string>; nowMs: number },
): ReleaseResource[] {
  const keep = keptSlugs(app.spec.meta);
  if (releases.length <= keep + 1) return [];
  const gone = expiredReleases({
    releases: releases.map(({ id, spec, createdAt }) => ({
      id,
      version: spec.version,
      artifactId: spec.artifactId,
      createdAt,
    })),
    liveId: app.status.releaseId,
    inUse,
    isSlug: (id) => slugs.has(id),
    keep,
    nowMs,
  });
  const ids = new Set(gone.map(({ id }) => id));
  return releases.filter(({ id }) => ids.has(id));
}

/** The releases of all deployments under way. */
function deployedNow({ deployments }: Deps): Set<string> {
  return new Set(
    valuesOf(deployments)
      .filter(({ status }) => status.endedAt === undefined)
      .flatMap(({ spec }) => [spec.newReleaseId, spec.oldReleaseId ?? spec.newReleaseId]),
  );
}

/** Whoever deploys it at the same time compares it. `conflict` if it is live or being deployed, or the app was changed. */
export async function removeRelease(
  deps: Deps,
  app: AppResource,
  release: ReleaseResource,
  { signal, epoch }: Options,
): Promise<void> {
  const version = `v${release.spec.version}`;
  if (app.status.releaseId === release.id) {
    throw new FlynnError('conflict', `${version} is live: deploy another release of ${app.spec.name} first`);
  }
  const { deploymentId } = app.status;
  if (deploymentId !== undefined) {
    const deployment = await deps.resources.find(deploymentType, deploymentId, { signal });
    const { newReleaseId, oldReleaseId, drains } = deployment?.spec ?? {};
    if ([newReleaseId, oldReleaseId, drains].includes(release.id)) {
      throw new FlynnError('conflict', `${version} is in a deployment of ${app.spec.name}: wait for that to end`);
    }
  }
  const formation = await deps.resources.find(formationType, release.id, { signal });
  const pieces: Piece[] = [
    removePiece(releaseType, release),
    { compare: [compareOf(app), ...(epoch === undefined ? [] : [epoch])] },
    ...(formation === undefined ? [] : [removePiece(formationType, formation)]),
  ];
  await deps.resources.commit(pieces, { signal });
}

/** Those of the given artifacts, default all that are not new, that no release has. Answers their number. */
export async function collectArtifacts(
  deps: Deps,
  wanted: ReadonlySet<string> | undefined,
  { signal, epoch }: Options,
): Promise<number> {
  if (wanted?.size === 0) return 0;
  const { resources } = deps;
  const used = async () => {
    const all = await resources.list(releaseType, { signal, isStrict: true });
    return new Set(all.map(({ spec }) => spec.artifactId));
  };
  const also = () => (epoch === undefined ? {} : { compare: [epoch] });
  const mark = (id: string, status: { condemnedAt?: string }) =>
    resources.updateStatus(artifactType, id, () => status, { signal, also }).catch(undefinedIfBeaten);
  const before = await used();
  const isOld = (createdAt: string) => Date.parse(createdAt) < deps.now() - artifactGraceMs;
  const unused = await resources.list(artifactType, {
    signal,
    where: ({ id, createdAt }) => !before.has(id) && (wanted === undefined ? isOld(createdAt) : wanted.has(id)),
  });
  if (unused.length === 0) return 0;
  const condemnedAt = new Date(deps.now()).toISOString();
  const marked = [];
  for (const { id } of unused) marked.push(await mark(id, { condemnedAt }));
  const after = await used();
  let removed = 0;
  for (const artifact of marked) {
    if (artifact === undefined) continue;
    if (after.has(artifact.id)) await mark(artifact.id, {});
    else {
      const gone = await resources
        .commit([removePiece(artifactType, artifact), also()], { signal })
        .catch(undefinedIfBeaten);
      removed += gone === undefined ? 0 : 1;
    }
  }
  return removed;
}

/** Of what was removed just now. Where it is not known whether others have them they stay for the next collection. */
export async function collectArtifactsOf(
  deps: Deps,
  removed: readonly ReleaseResource[],
  options: Options,
): Promise<void> {
  try {
    await collectArtifacts(deps, new Set(removed.flatMap(({ spec }) => spec.artifactId ?? [])), options);
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    deps.log.warn({ err: error }, 'artifacts of releases that are gone stay for now');
  }
}

/** Somebody else was at it. */
function undefinedIfBeaten(error: unknown): undefined {
  if (!hasCode(error, 'conflict', 'not_found')) throw error;
}
