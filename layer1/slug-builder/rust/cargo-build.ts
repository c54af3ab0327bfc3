/** Has Cargo build an app, and takes the programs out of what it makes. */
import { copyFile, mkdir } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { buildEnv } from '../environment.ts';
import { exists } from '../nodejs/toolchain.ts';
import { debianPaths, withRuntime } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import { type Program, placeOf, readArtifacts } from './artifacts.ts';
import { tidyTarget } from './kept-target.ts';

export type CargoEnv = Record<string, string> & { CARGO_HOME: string; CARGO_TARGET_DIR: string };

/** `dir`: where Debian's packages of Rust are. */
export async function cargoEnv(context: BuildContext, dir: string): Promise<CargoEnv> {
  const { appDir, cacheDir } = context.layout;
  const target = join(cacheDir, 'rust/target');
  const limit = process.constrainedMemory();
  const jobs = jobsWithin(limit > 0 ? Math.min(limit, totalmem()) : totalmem(), availableParallelism());
  const values = {
    // With git's own program the key of the app is used, as anywhere in a build.
    CARGO_NET_GIT_FETCH_WITH_CLI: 'true',
    ...(jobs === undefined ? {} : { CARGO_BUILD_JOBS: String(jobs) }),
    // No build reaches the app's database, whose address it has.
    ...((await exists(join(appDir, '.sqlx'))) ? { SQLX_OFFLINE: 'true' } : {}),
  };
  return {
    ...withRuntime(buildEnv(context), { paths: debianPaths(dir), values }),
    CARGO_HOME: cargoHomeOf(context),
    CARGO_TARGET_DIR: target,
    // The repository may name a folder of its own for all but the programs: that would be in the slug.
    CARGO_BUILD_BUILD_DIR: target,
  };
}

/** For the buildpacks after it, which may have Cargo build packages. By itself Cargo would keep what it fetches in the app. */
export function cargoExports(context: BuildContext, dir: string): Record<string, string> {
  const { PATH = '', LD_LIBRARY_PATH = '' } = withRuntime(context.baseEnv, { paths: debianPaths(dir), values: {} });
  return { PATH, LD_LIBRARY_PATH, CARGO_HOME: cargoHomeOf(context) };
}

function cargoHomeOf({ layout }: BuildContext): string {
  return join(layout.cacheDir, 'rust/cargo');
}

/** A compiler takes half a gigabyte of a large crate. Undefined: as many at once as there are processors. */
export function jobsWithin(memoryBytes: number, processors: number): number | undefined {
  const jobs = Math.max(1, Math.floor(memoryBytes / 512 / 1024 ** 2));
  return jobs < processors ? jobs : undefined;
}

/** They are below `target` in the app, where people's Procfiles look for them. */
export async function buildPrograms(context: BuildContext, env: CargoEnv): Promise<Program[]> {
  const { layout, out, appEnv } = context;
  const flags = (appEnv['RUST_CARGO_BUILD_FLAGS'] ?? '--release').split(/\s+/).filter((flag) => flag !== '');
  if (!(await exists(join(layout.appDir, 'Cargo.lock')))) {
    out.warn(
      'There is no Cargo.lock, so each build may get other versions of crates. Commit the one that cargo writes.',
    );
  } else if (!flags.some((flag) => /^--(?:locked|frozen)$/.test(flag))) flags.push('--locked');
  const called = `cargo build ${flags.join(' ')}`.trim();
  out.topic(`Building with ${called}`);
  const said: Buffer[] = [];
  await runTool(['cargo', 'build', ...flags, '--message-format=json-render-diagnostics'], {
    context,
    env,
    called,
    check: whatToCheck,
    onStdout: (chunk) => void said.push(chunk),
  });
  const { programs, ofOthers } = readArtifacts(Buffer.concat(said).toString(), env.CARGO_TARGET_DIR);
  for (const program of programs) {
    const place = join(layout.appDir, placeOf(program));
    await mkdir(dirname(place), { recursive: true });
    await copyFile(join(env.CARGO_TARGET_DIR, program.path), place);
  }
  await tidyTarget(env.CARGO_TARGET_DIR, ofOthers);
  return programs;
}

const whatToCheck: readonly string[] = [
  'that it works on a fresh clone with this Rust, and that Cargo.lock is committed and up to date: cargo update --workspace',
  'that .cargo/config.toml names no linker, rustc-wrapper or target that is not here: the compiler is gcc',
  'that crates can be fetched from the cluster; a registry to be asked instead of crates.io is named with: flynn runner env set CARGO_MIRROR_URL=sparse+URL/. Crates that are in the repository need none: cargo vendor',
  "that what a crate finds with pkg-config is here: OpenSSL, PostgreSQL's libpq, zlib and few more are. Others the crate builds itself by a feature, mostly called vendored or bundled; else commit a Dockerfile",
];
