/** Which package manager do the files of a repository speak for? */
import { FlynnError } from '@flynn/kit/errors';

export const lockfileOf = { npm: 'package-lock.json', yarn: 'yarn.lock', pnpm: 'pnpm-lock.yaml' } as const;
export type ManagerName = keyof typeof lockfileOf | 'bun';

const names = ['npm', 'yarn', 'pnpm'] as const;
/** The second is that of Bun before 1.2. */
export const bunLockfiles = ['bun.lock', 'bun.lockb'] as const;

export type ChosenManager = {
  name: ManagerName;
  /** Undefined: what gets installed is decided anew at each build. */
  lockfile: string | undefined;
};

/** `invalid` for several lockfiles, or one that belongs to another manager than `packageManager` names. */
export function chooseManager(files: readonly string[], packageManager: string | undefined): ChosenManager {
  const found = names.filter((name) => files.includes(lockfileOf[name]));
  const shrinkwrap = files.includes('npm-shrinkwrap.json');
  if (shrinkwrap && !found.includes('npm')) found.unshift('npm');
  if (found.length > 1) {
    const listed = found
      .map((name) => (name === 'npm' && shrinkwrap ? 'npm-shrinkwrap.json' : lockfileOf[name]))
      .join(', ');
    throw new FlynnError(
      'invalid',
      `there are lockfiles of several package managers: ${listed}. Keep the one that is up to date and remove the others: git rm ${listed.split(', ').slice(1).join(' ')}`,
    );
  }
  const declared = names.find((name) => packageManager?.startsWith(`${name}@`));
  const [name] = found;
  if (name === undefined) return { name: declared ?? 'npm', lockfile: undefined };
  if (declared !== undefined && declared !== name) {
    throw new FlynnError(
      'invalid',
      `package.json says packageManager ${packageManager}, but the lockfile is ${lockfileOf[name]}: make them agree`,
    );
  }
  return { name, lockfile: name === 'npm' && shrinkwrap ? 'npm-shrinkwrap.json' : lockfileOf[name] };
}

/** Those of the Node.js buildpack's managers. */
export function lockfilesOfNode(files: readonly string[]): string[] {
  return [...names.map((name) => lockfileOf[name]), 'npm-shrinkwrap.json'].filter((name) => files.includes(name));
}

/** Of an app of Bun. `invalid` for a lockfile of another manager alone: Bun installs other versions than those in it. */
export function chooseBun(files: readonly string[]): ChosenManager {
  const lockfile = bunLockfiles.find((name) => files.includes(name));
  const [other] = lockfilesOfNode(files);
  if (lockfile === undefined && other !== undefined) {
    throw new FlynnError(
      'invalid',
      `this app is built with Bun, but its lockfile is ${other}: run "bun install", commit bun.lock, and remove the other (git rm ${other})`,
    );
  }
  return { name: 'bun', lockfile };
}

/** The pnpm that wrote a lockfile, as a range. */
export function pnpmRangeOf(lockfile: string): string {
  const version = /^lockfileVersion:\s*['"]?(\d+)/m.exec(lockfile)?.[1];
  if (version === '5') return '^7.0.0';
  if (version === '6') return '^8.0.0';
  return '^10.0.0';
}

/** Yarn 2 and later write YAML with a `__metadata` entry. */
export function isBerryLockfile(lockfile: string): boolean {
  return /^__metadata:/m.test(lockfile);
}
