/** Which Bun does an app ask for? Pure. */
import semver from 'semver';
import { FlynnError } from '@flynn/kit/errors';
import type { PackageJson } from '../nodejs/package-json.ts';
import type { Wish } from '../wanted-version.ts';

export type BunWish = {
  range: string;
  /** Who asks, for people. */
  by: string;
};

/** The first of them that says something; without any it is the newest. `invalid` for what is no version or range. */
export function bunWish(
  { packageManager, engines }: Pick<PackageJson, 'packageManager' | 'engines'>,
  ofFile: Wish | undefined,
): BunWish {
  // A digest may follow.
  const pinned = /^bun@([^+]+)/.exec(packageManager ?? '')?.[1];
  const wishes = [
    { range: pinned, by: 'packageManager in package.json' },
    { range: engines['bun'], by: 'engines.bun in package.json' },
    { range: ofFile?.version, by: '.bun-version' },
  ];
  for (const { range, by } of wishes) {
    if (range === undefined || ['', 'latest'].includes(range.trim())) continue;
    if (semver.validRange(range) !== null) return { range, by };
    throw new FlynnError(
      'invalid',
      `${by} asks for Bun "${range.slice(0, 60)}", which is not a version or range: write one like "1.4.5" or "^1.4.0"`,
    );
  }
  return { range: '*', by: 'this app' };
}
