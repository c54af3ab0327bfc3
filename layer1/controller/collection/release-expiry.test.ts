import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { expiredReleases, keptSlugs } from './release-expiry.ts';
import type { KnownRelease } from './release-expiry.ts';

const old = '2020-01-01T00:00:00.000Z';
const nowMs = Date.parse('2026-01-01T00:00:00.000Z');
const release = (version: number, artifactId: string | undefined, createdAt = old): KnownRelease => ({
  id: `r${version}`,
  version,
  artifactId,
  createdAt,
});
const expired = (releases: KnownRelease[], change: Partial<Parameters<typeof expiredReleases>[0]> = {}) =>
  expiredReleases({
    releases,
    liveId: `r${Math.max(...releases.map(({ version }) => version))}`,
    inUse: new Set(),
    isSlug: (id) => !id.startsWith('image'),
    keep: 2,
    nowMs,
    ...change,
  })
    .map(({ id }) => id)
    .sort();

test('the newest slugs beside the live one are kept', () => {
  const releases = [1, 2, 3, 4, 5].map((version) => release(version, `s${version}`));
  assert.deepEqual(expired(releases), ['r1', 'r2']);
});

test('a slug counts once, however many releases share it, and they all stay', () => {
  const releases = [
    release(1, 'a'),
    release(2, 'b'),
    release(3, 'b'),
    release(4, 'c'),
    release(5, 'd'),
    release(6, 'd'),
  ];
  assert.deepEqual(expired(releases), ['r1']);
});

test('what is live, new, being deployed or made of an image stays', () => {
  const releases = [
    release(1, 's1'),
    release(2, 's2'),
    release(3, 's3'),
    release(4, 'image'),
    release(5, undefined),
    release(6, 's6', '2025-12-31T23:30:00.000Z'),
    release(7, 's7'),
    release(8, 's8'),
  ];
  const options = { keep: 0, inUse: new Set(['r2']) };
  assert.deepEqual(expired(releases, { ...options, liveId: 'r7' }), ['r1', 'r3']);
  assert.deepEqual(expired(releases, { ...options, liveId: 'r1' }), ['r3', 'r7']);
  assert.deepEqual(expired(releases, { ...options, liveId: undefined }), [], 'nothing is live: nothing goes');
});

test('of slugs that never went live the newest are kept, and none of those from before for their sake', () => {
  const releases = Array.from({ length: 9 }, (_, index) => release(index + 1, `s${index + 1}`));
  assert.deepEqual(expired(releases, { liveId: 'r4' }), ['r1', 'r5', 'r6', 'r7']);
  assert.deepEqual(expired([...releases, release(10, 's5')], { liveId: 'r4' }), ['r1', 'r6', 'r7', 'r8']);
});

test('of releases that share one slug, or are made of images, the newest 200 stay', () => {
  const releases = Array.from({ length: 230 }, (_, index) => release(index + 1, index % 2 === 0 ? 'a' : 'image'));
  const gone = new Set(expired(releases, { inUse: new Set(['r3']) }));
  assert.equal(gone.size, 29);
  assert.ok(!gone.has('r3') && gone.has('r30') && !gone.has('r31'));
});

test('an app says how many it keeps', () => {
  assert.equal(keptSlugs({}), 10);
  assert.equal(keptSlugs({ 'gc.max_inactive_slug_releases': '3' }), 3);
  assert.equal(keptSlugs({ 'gc.max_inactive_slug_releases': 'many' }), 10);
});

test('no release that stays has a slug that goes', () => {
  const slug = fc.option(fc.constantFrom('a', 'b', 'c', 'd', 'image1'), { nil: undefined });
  fc.assert(
    fc.property(fc.array(slug, { minLength: 1, maxLength: 12 }), fc.nat(4), fc.nat(11), (slugs, keep, live) => {
      const releases = slugs.map((artifactId, index) => release(index + 1, artifactId));
      const gone = new Set(expired(releases, { keep, liveId: `r${(live % slugs.length) + 1}` }));
      const lost = new Set(releases.filter(({ id }) => gone.has(id)).map(({ artifactId }) => artifactId));
      assert.ok(
        releases.every(({ id, artifactId }) => gone.has(id) || artifactId === undefined || !lost.has(artifactId)),
      );
    }),
    { seed: 5 },
  );
});
