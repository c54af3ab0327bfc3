/**
 * Takes away what nothing refers to any more: releases nobody goes back to, their artifacts, and the blobs behind those.
 *
 * INVARIANT. An artifact is marked before it is looked for once more and removed, and a release is made comparing its
 * artifact: whoever of the two comes first, no release is left without its artifact.
 */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { removePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import type { Compare } from '@flynn/store/store';
import type { Deps } from './deps.ts';
import { expiredReleases, keptSlugs } from './release-expiry.ts';
import { appType, artifactType, formationType, ownedBy, releaseType } from './resources.ts';
import type { AppResource, ReleaseResource } from './resources.ts';

/** One that was made a moment ago is about to get its release. */
const artifactGraceMs = 60 * 60_000;

type Options = { signal: AbortSignal; epoch?: Compare };

/** Of one app. Answers how many releases went. */
export async function collectReleases(deps: Deps, appId: string, options: Options): Promise<number> {
  const { resources } = deps;
  const { signal } = options;
  const app = await resources.find(appType, appId, { signal });
  if (app === undefined || app.deletingSince !== undefined || app.spec.isSystem) return 0;
  const releases = await resources.list(releaseType, { owner: ownedBy(appId), signal });
  const keep = keptSlugs(app.spec.meta);
  if (releases.length <= keep + 1) return 0;
  const artifacts = await resources.list(artifactType, { signal });
  const slugs = new Set(artifacts.filter(({ spec }) => spec.type === 'slug').map(({ id }) => id));
  const gone = expiredReleases({
    releases: releases.map(({ id, spec, createdAt }) => ({
      id,
      version: spec.version,
      artifactId: spec.artifactId,
      createdAt,
    })),
    liveId: app.status.releaseId,
    inUse: deployedNow(deps, app),
    isSlug: (id) => slugs.has(id),
    keep,
    nowMs: deps.now(),
  });
  for (const { id } of gone) {
    const release = releases.find((one) => one.id === id);
    if (release !== undefined) await removeRelease(deps, app, release, options);
  }
  await collectArtifacts(deps, new Set(gone.flatMap(({ artifactId }) => artifactId ?? [])), options);
  if (gone.length > 0) deps.log.info({ app: app.spec.name, releases: gone.length }, 'old releases collected');
  return gone.length;
}

/** The releases of a deployment under way. */
function deployedNow({ deployments }: Deps, app: AppResource): Set<string> {
  const open = [...deployments.snapshot.entries.values()].map(({ value }) => value);
  return new Set(
    open
      .filter(({ spec, status }) => spec.appId === app.id && status.endedAt === undefined)
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
  if (app.status.deploymentId !== undefined) {
    throw new FlynnError('conflict', `a deployment of ${app.spec.name} is under way: wait for it to end`);
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
  const usedNow = async () => {
    const all = await resources.list(releaseType, { signal });
    return new Set(all.map(({ spec }) => spec.artifactId));
  };
  const used = await usedNow();
  const isOld = (createdAt: string) => Date.parse(createdAt) < deps.now() - artifactGraceMs;
  const unused = (await resources.list(artifactType, { signal })).filter(
    ({ id, createdAt }) => !used.has(id) && (wanted === undefined ? isOld(createdAt) : wanted.has(id)),
  );
  let removed = 0;
  for (const { id } of unused) {
    try {
      const condemnedAt = new Date(deps.now()).toISOString();
      const also = () => (epoch === undefined ? {} : { compare: [epoch] });
      const marked = await resources.updateStatus(artifactType, id, () => ({ condemnedAt }), { signal, also });
      if ((await usedNow()).has(id)) await resources.updateStatus(artifactType, id, () => ({}), { signal, also });
      else {
        await resources.commit([removePiece(artifactType, marked), also()], { signal });
        removed += 1;
      }
    } catch (error) {
      // Somebody else was at it.
      if (!hasCode(error, 'conflict', 'not_found')) throw error;
    }
  }
  return removed;
}
