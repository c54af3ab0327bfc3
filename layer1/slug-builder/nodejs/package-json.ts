/** What the build reads of package.json. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';

const texts = z.record(z.string(), z.string());
const packageSchema = z.object({
  engines: texts.default({}),
  scripts: texts.default({}),
  dependencies: texts.default({}),
  devDependencies: texts.default({}),
  optionalDependencies: texts.default({}),
  peerDependencies: texts.default({}),
  packageManager: z.string().optional(),
  /** Of no use to a build when it is something else. */
  main: z.string().optional().catch(undefined),
  module: z.string().optional().catch(undefined),
  workspaces: z.unknown().optional(),
});
export type PackageJson = z.output<typeof packageSchema>;

export function parsePackageJson(text: string): PackageJson {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new FlynnError('invalid', `package.json is not JSON: ${messageOf(error)}`, { cause: error });
  }
  const parsed = packageSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new FlynnError('invalid', `package.json is not usable: ${z.prettifyError(parsed.error)}`);
}

/** Whether a package manager has anything to install for it. */
export function needsPackages(manifest: PackageJson): boolean {
  const { dependencies, devDependencies, optionalDependencies, peerDependencies, workspaces } = manifest;
  const named = { ...dependencies, ...devDependencies, ...optionalDependencies, ...peerDependencies };
  return workspaces !== undefined || Object.keys(named).length > 0;
}

/** Variables in front are fine; anything a shell or npm would have to interpret is not. */
const plainStart = {
  node: /^(?:[A-Z_][A-Z0-9_]*=[\w@%+:,./-]* +)*node(?: +[\w@%+=:,./-]+)+$/,
  bun: /^(?:[A-Z_][A-Z0-9_]*=[\w@%+:,./-]* +)*(?:node|bun)(?: +[\w@%+=:,./-]+)+$/,
} as const;

/**
 * The command line of `web` when there is no Procfile: what `scripts.start` says if it only starts Node, so that signals
 * reach the app and not a package manager between.
 */
export function startCommand(manifest: PackageJson, manager: string, hasServerFile: boolean): string | undefined {
  return startScript(manifest, plainStart.node, `${manager} start`) ?? (hasServerFile ? 'node server.js' : undefined);
}

/** The same of an app of Bun, with the file of it that `bun` starts where nothing else is said. */
export function bunStartCommand(manifest: PackageJson, file: string | undefined): string | undefined {
  return startScript(manifest, plainStart.bun, 'bun run start') ?? (file === undefined ? undefined : `bun ${file}`);
}

function startScript({ scripts }: PackageJson, plain: RegExp, run: string): string | undefined {
  const { start, prestart, poststart } = scripts;
  if (start === undefined) return undefined;
  const isPlain = plain.test(start.trim()) && prestart === undefined && poststart === undefined;
  return isPlain ? start.trim() : run;
}

/** Files that package.json names, `main` and the like, which can stand in a command line. */
export function plainFile(named: string | undefined): string[] {
  const file = named?.replace(/^\.\//, '');
  return file !== undefined && /^\w[\w@+./-]*\.[cm]?[jt]sx?$/.test(file) ? [file] : [];
}

/** Heroku's own name wins over `build`. */
export function buildScript(manifest: PackageJson): string | undefined {
  return ['heroku-postbuild', 'build'].find((name) => manifest.scripts[name] !== undefined);
}

/**
 * The program that `web` runs first, where it is the start script: "nest" of "nest start". Undefined for what only a shell can
 * tell.
 */
export function startProgram(manifest: PackageJson, web: string | undefined): string | undefined {
  if (web === undefined || !/^(?:npm|yarn|pnpm|bun)(?: run)? start(?:\s|$)/.test(web)) return undefined;
  return /^(?:[A-Z_][A-Z0-9_]*=[^\s;&|]* +)*([\w.-]+)(?:\s|$)/.exec(manifest.scripts['start']?.trim() ?? '')?.[1];
}

/** What to do about a start script whose program went with the development dependencies. */
export function missingStart(program: string, { scripts }: PackageJson, manager: string): string {
  const other = Object.keys(scripts).find((name) => /^start[:-]prod/.test(name));
  return [
    `"${manager === 'bun' ? 'bun run' : manager} start" runs ${program}, which was removed with the development dependencies: it will not be found. Either`,
    ...(other === undefined
      ? []
      : [`- start the app with ${other}: echo 'web: ${manager} run ${other}' > Procfile && git add Procfile`]),
    '- say in the start script what runs without it, as "node dist/main.js"',
    '- move its package from devDependencies to dependencies',
    '- keep all of them: flynn env set NPM_CONFIG_PRODUCTION=false',
  ].join('\n');
}
