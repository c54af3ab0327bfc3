/** Which releases of an app may go? Pure. */

export type KnownRelease = { id: string; version: number; artifactId: string | undefined; createdAt: string };

const defaultKept = 10;
/** A release that was made a moment ago is about to be deployed. */
const graceMs = 60 * 60_000;
/** Of any kind: each change of the environment makes one. */
const mostReleases = 200;
const keptMeta = 'gc.max_inactive_slug_releases';

/** How many slugs beside the live one an app keeps: its metadata says so. */
export function keptSlugs(meta: Readonly<Record<string, string>>): number {
  const text = meta[keptMeta] ?? '';
  return /^\d{1,6}$/.test(text) ? Number(text) : defaultKept;
}

/**
 * Those whose slug is none of the newest `keep` before the live one, nor of as many after it, which never went live or were gone
 * back from. Releases that share a slug that is kept stay too: whatever is listed can be gone back to. What is made of images
 * stays, and what is `inUse`; of all the newest 200.
 */
export function expiredReleases(app: {
  releases: readonly KnownRelease[];
  liveId: string | undefined;
  inUse: ReadonlySet<string>;
  isSlug: (artifactId: string) => boolean;
  keep: number;
  nowMs: number;
}): KnownRelease[] {
  const { releases, liveId, inUse, isSlug, keep, nowMs } = app;
  const live = releases.find(({ id }) => id === liveId);
  if (live === undefined) return [];
  const newest = releases.toSorted((a, b) => b.version - a.version);
  const isPinned = (release: KnownRelease) =>
    release.id === live.id || inUse.has(release.id) || Date.parse(release.createdAt) > nowMs - graceMs;
  const kept = new Set(newest.filter(isPinned).flatMap(({ artifactId }) => artifactId ?? []));
  const isLater = ({ version }: KnownRelease) => version > live.version;
  const [later, earlier] = [newest.filter(isLater), newest.filter((release) => !isLater(release))];
  // What was made last may be deployed yet.
  for (const [some, most] of [
    [later, Math.max(keep, 1)],
    [earlier, keep],
  ] as const) {
    const slugs = some.flatMap(({ artifactId }) => (artifactId !== undefined && isSlug(artifactId) ? artifactId : []));
    const others = [...new Set(slugs)].filter((artifactId) => !kept.has(artifactId));
    for (const artifactId of others.slice(0, most)) kept.add(artifactId);
  }
  const isGone = ({ artifactId }: KnownRelease) =>
    artifactId !== undefined && isSlug(artifactId) && !kept.has(artifactId);
  return newest.filter((release, index) => isGone(release) || (index >= mostReleases && !isPinned(release)));
}
