/** Which Ruby do a Gemfile and its lockfile ask for, and what in them matters to a build? */
import { FlynnError } from '@flynn/kit/errors';
import semver from 'semver';
import type { Wish } from '../wanted-version.ts';

/** The `ruby "…"` of a Gemfile, as it is written; undefined when it is left out or computed. */
export function rubyOfGemfile(text: string): string | undefined {
  const line = /^\s*ruby[\s(]+(.*)$/m.exec(text)?.[1];
  if (line === undefined) return undefined;
  const requirements = [...line.replace(/\b(?:engine|patchlevel)\w*(?::|\s*=>).*$/, '').matchAll(/["']([^"']+)["']/g)];
  return requirements.length === 0 ? undefined : requirements.map((each) => each[1]).join(', ');
}

/** The Ruby that wrote a Gemfile.lock. */
export function rubyOfLock(text: string): Wish | undefined {
  const version = /^RUBY VERSION\r?\n\s+ruby (\d+(?:\.\d+){0,2})/m.exec(text)?.[1];
  return version === undefined ? undefined : { version, file: 'Gemfile.lock' };
}

/** Bundler itself would refuse to run with another, in other words. */
export function checkGemfileRuby(requirement: string, version: string): void {
  const range = requirement
    .split(',')
    .map((each) => rangeOf(each.trim()))
    .join(' ');
  if (semver.validRange(range) === null || semver.satisfies(version, range)) return;
  const [major, minor] = version.split('.');
  throw new FlynnError(
    'invalid',
    `the Gemfile asks for ruby "${requirement}", and there is ${version}: write ruby "~> ${major}.${minor}.0", or build with a buildpack that brings its own (BUILDPACK_URL)`,
  );
}

/** Of RubyGems' operators `~>` is the one npm's ranges write differently: "~> 3.3" is below 4, "~> 3.3.0" below 3.4. */
function rangeOf(requirement: string): string {
  const pessimistic = /^~>\s*(\d+(?:\.\d+)*)$/.exec(requirement)?.[1];
  if (pessimistic !== undefined) return `${pessimistic.split('.').length > 2 ? '~' : '^'}${pessimistic}`;
  return requirement.replace(/^=\s*/, '').replace(/^(\d+\.\d+\.\d+)-?p\d+$/, '$1');
}

export function hasGem(lock: string, name: string): boolean {
  return lock.split(/\r?\n/).some((line) => line.startsWith(`    ${name} (`));
}
