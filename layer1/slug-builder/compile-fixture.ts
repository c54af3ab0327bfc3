/** For tests: an app's files in temporary folders, and what compiling them makes and says. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { BuildContext, GivenContext, Layout } from './buildpack.ts';
import { type SlugPlan, compileSlug } from './compile.ts';
import { baseEnv } from './environment.ts';
import { createOutput } from './output.ts';

type Bench = AsyncDisposable & {
  dir: string;
  layout: Layout;
  output: () => string;
  /** What a part of a buildpack is given. */
  context: () => BuildContext;
  /** The variables of a build where the program of this name is this script. */
  withProgram: (name: string, script: string) => Promise<Record<string, string>>;
  compile: (appEnv?: Record<string, string>, cacheIsGood?: (isGood: boolean) => void) => Promise<SlugPlan>;
};

/** A place to build `files` in: their paths with their texts. */
export async function bench(files: Record<string, string>): Promise<Bench> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-compile-'));
  const layout: Layout = {
    appDir: join(dir, 'app'),
    cacheDir: join(dir, 'cache'),
    envDir: join(dir, 'env'),
    runtimeDir: join(dir, 'opt'),
    scratchDir: join(dir, 'scratch'),
  };
  for (const path of Object.values(layout)) await mkdir(path);
  await write(layout.appDir, files);
  let said = '';
  const out = createOutput((text) => (said += text));
  const given = (appEnv: Record<string, string>): GivenContext => ({
    layout,
    appEnv,
    baseEnv: baseEnv({ PATH: process.env['PATH'] }, { home: layout.appDir, commit: 'abc' }),
    out,
    nowMs: 0,
    signal: AbortSignal.timeout(60_000),
  });
  const context = (): BuildContext => ({ ...given({}), isBuilt: false, keepCache: () => undefined });
  return {
    dir,
    layout,
    output: () => said,
    context,
    async withProgram(name, script) {
      const bin = join(dir, 'bin');
      await write(bin, { [name]: `#!/bin/sh\n${script}\n` });
      await chmod(join(bin, name), 0o755);
      const env = context().baseEnv;
      return { ...env, PATH: `${bin}:${env['PATH'] ?? ''}` };
    },
    compile: (appEnv = {}, cacheIsGood) => compileSlug(given(appEnv), cacheIsGood),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

export async function write(dir: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true });
    await writeFile(join(dir, path), text);
  }
}
