/** Which version of a tool do the `engines` of package.json ask for? */
import { FlynnError } from '@flynn/kit/errors';
import semver from 'semver';

export const defaultNodeRange = '24.x';

/** What people write besides ranges, as ranges. */
const aliases: Readonly<Record<string, string>> = {
  '': defaultNodeRange,
  '*': defaultNodeRange,
  x: defaultNodeRange,
  latest: '*',
  current: '*',
  node: '*',
  stable: defaultNodeRange,
  'lts/*': defaultNodeRange,
  lts: defaultNodeRange,
};

/** `invalid` when it is no range. `tool` is as in `engines`: "node", "npm". */
export function rangeOf(tool: string, written: string | undefined): string {
  const text = (written ?? '').trim();
  const range = tool === 'node' ? (aliases[text.toLowerCase()] ?? text) : text || '*';
  if (semver.validRange(range) !== null) return range;
  throw new FlynnError(
    'invalid',
    `engines.${tool} in package.json is "${text}", which is not a version or range: write one like "24.x", ">=22" or "^24.1.0"`,
  );
}

/** The newest version in the range. `invalid`, naming the newest there are, if none is. */
export function newestInRange(
  tool: string,
  range: string,
  versions: readonly string[],
  by = `engines.${tool} in package.json`,
): string {
  const found = semver.maxSatisfying(versions, range);
  if (found !== null) return found;
  const newest = semver
    .rsort(versions.filter((version) => semver.prerelease(version) === null))
    .filter((version, index, all) => index === 0 || semver.major(version) !== semver.major(all[index - 1] ?? version))
    .slice(0, 5);
  throw new FlynnError(
    'invalid',
    `${by} asks for ${range}, and there is no such version: the newest are ${newest.join(', ')}`,
  );
}

export function isInRange(version: string, range: string): boolean {
  return semver.satisfies(version, range);
}

/** An npm that runs on an old Node: the present one gives up old versions as it goes. */
export function npmRangeFor(nodeVersion: string): string {
  const npmOfNode = [
    ['>=20.17.0', '^11.0.0'],
    ['>=18.17.0', '^10.0.0'],
    ['>=14.17.0', '^9.0.0'],
  ] as const;
  return npmOfNode.find(([range]) => semver.satisfies(nodeVersion, range))?.[1] ?? '^6.0.0';
}
