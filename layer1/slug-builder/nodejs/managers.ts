/** How npm, Yarn, pnpm and Bun are told to do the same things. */
import type { ManagerName } from './lockfiles.ts';

export type Manager = {
  /** The program's name. */
  program: ManagerName;
  /** Of the npm registry; undefined when the repository brings the program itself. */
  packageName: string | undefined;
  /** With the lockfile as it is, development dependencies too. */
  install: readonly string[];
  /** Removes development dependencies; undefined where there is nothing to do it with. */
  prune: readonly string[] | undefined;
  /** Whether `prune` is another install, beside which what the build made in packages has to be kept. */
  prunesAnew?: true;
  /** Yarn 2 and later. */
  isBerry?: true;
};

export function npmManager(hasLockfile: boolean): Manager {
  const flags = ['--include=dev', '--no-audit', '--no-fund', '--no-update-notifier'];
  return {
    program: 'npm',
    packageName: 'npm',
    install: [hasLockfile ? 'ci' : 'install', ...flags],
    prune: ['prune', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--no-update-notifier'],
  };
}

export function yarnClassicManager(hasLockfile: boolean): Manager {
  const frozen = hasLockfile ? ['--frozen-lockfile'] : [];
  const quiet = ['--non-interactive', '--no-progress', '--ignore-engines'];
  return {
    program: 'yarn',
    packageName: 'yarn',
    install: ['install', '--production=false', ...frozen, ...quiet],
    prune: ['install', '--production', '--ignore-scripts', '--prefer-offline', ...frozen, ...quiet],
  };
}

/** Yarn 2 and later. Before Yarn 4 the pruning command is a plugin's. */
export function yarnBerryManager(version: string | undefined, hasLockfile: boolean): Manager {
  const major = Number(version?.split('.')[0] ?? '4');
  return {
    program: 'yarn',
    isBerry: true,
    packageName: version === undefined ? undefined : '@yarnpkg/cli-dist',
    install: ['install', ...(hasLockfile ? ['--immutable'] : [])],
    prune: major >= 4 ? ['workspaces', 'focus', '--production', '--all'] : undefined,
  };
}

export function pnpmManager(hasLockfile: boolean): Manager {
  return {
    program: 'pnpm',
    packageName: 'pnpm',
    install: ['install', '--prod=false', hasLockfile ? '--frozen-lockfile' : '--no-frozen-lockfile'],
    prune: ['prune', '--prod', '--ignore-scripts'],
  };
}

/**
 * Bun would link packages to its cache, which is kept: programs of a build write into them. Only those that `trustedDependencies`
 * names have their install scripts run, as anywhere with Bun.
 */
export function bunManager(hasLockfile: boolean): Manager {
  const flags = [...(hasLockfile ? ['--frozen-lockfile'] : []), '--backend=copyfile', '--no-progress'];
  return {
    program: 'bun',
    packageName: bunPackage(process.arch),
    install: ['install', ...flags],
    prune: ['install', '--production', '--ignore-scripts', ...flags],
    prunesAnew: true,
  };
}

/** Of an older Bun the other one for x64 needs a processor with AVX2, and a slug runs on any host of its kind. */
export function bunPackage(arch: string): string {
  return arch === 'arm64' ? '@oven/bun-linux-aarch64' : `@oven/bun-linux-${arch}-baseline`;
}
