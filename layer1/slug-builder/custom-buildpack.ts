/** A folder with bin/detect, bin/compile and bin/release as a Buildpack: Heroku's buildpack API. */
import { chmod, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import type { BuildContext, Buildpack, Compiled } from './buildpack.ts';
import { exitReason, runForOutput, runShown } from './command.ts';
import { exists } from './nodejs/toolchain.ts';

/** Values are what YAML makes of them: `WORKERS: 3` means the text 3. */
const texts = z.record(z.string(), z.coerce.string()).nullish();
const releaseSchema = z.object({ default_process_types: texts, config_vars: texts });

export function customBuildpack(dir: string, name: string): Buildpack {
  return {
    name,
    async detect(context) {
      await makeRunnable(dir, name);
      try {
        const text = await runForOutput([join(dir, 'bin/detect'), context.layout.appDir], optionsOf(context));
        return text.trim().split('\n')[0] || name;
      } catch (error) {
        // Exit codes other than 0 mean: not mine.
        if (hasCode(error, 'invalid') && 'exitCode' in error.detail) return undefined;
        throw error;
      }
    },
    async compile(context) {
      await makeRunnable(dir, name);
      const { layout, out } = context;
      // Of an earlier use: what it exports counts for this build only.
      await rm(join(dir, 'export'), { force: true });
      const args = [join(dir, 'bin/compile'), layout.appDir, layout.cacheDir, layout.envDir] as const;
      const code = await runShown(args, { ...optionsOf(context), out, style: 'raw' });
      if (code !== 0) {
        throw new FlynnError(
          'invalid',
          `bin/compile of the buildpack ${name} failed with exit code ${code}${exitReason(code)}: its output is above.`,
        );
      }
      return {
        ...(await release(dir, name, context)),
        exports: await readExports(dir, context),
        runtimes: [],
        isCacheChanged: true,
      };
    },
  };
}

/** `invalid` when it is not what bin/release is to print. */
export function parseRelease(text: string): Pick<Compiled, 'processTypes' | 'configVars'> {
  try {
    const parsed = releaseSchema.parse(parseYaml(text, { logLevel: 'error' }) ?? {});
    return { processTypes: parsed.default_process_types ?? {}, configVars: parsed.config_vars ?? {} };
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : messageOf(error);
    throw new FlynnError('invalid', `bin/release printed something else than its YAML: ${why}`, { cause: error });
  }
}

async function release(
  dir: string,
  name: string,
  context: BuildContext,
): Promise<Pick<Compiled, 'processTypes' | 'configVars'>> {
  const program = join(dir, 'bin/release');
  if (!(await exists(program))) return { processTypes: {}, configVars: {} };
  const text = await runForOutput([program, context.layout.appDir], optionsOf(context));
  try {
    return parseRelease(text);
  } catch (error) {
    throw new FlynnError('invalid', `the buildpack ${name} is not usable: ${messageOf(error)}`, { cause: error });
  }
}

/** What sourcing the buildpack's `export` changes: PATH and the like, for the buildpacks after it. */
async function readExports(dir: string, context: BuildContext): Promise<Record<string, string>> {
  const file = join(dir, 'export');
  if (!(await exists(file))) return {};
  const script = 'set -a; . "$1" >/dev/null; env -0';
  const text = await runForOutput(['bash', '-c', script, 'bash', file], optionsOf(context));
  const entries = text.split('\0').flatMap((entry) => {
    const at = entry.indexOf('=');
    const name = entry.slice(0, at);
    const value = entry.slice(at + 1);
    const isOfBash = ['_', 'SHLVL', 'PWD', 'OLDPWD'].includes(name);
    return at < 1 || isOfBash || context.baseEnv[name] === value ? [] : [[name, value] as const];
  });
  return Object.fromEntries(entries);
}

async function makeRunnable(dir: string, name: string): Promise<void> {
  const binDir = join(dir, 'bin');
  const programs: string[] = await readdir(binDir).catch(() => []);
  if (!programs.includes('compile')) {
    throw new FlynnError(
      'invalid',
      `the buildpack ${name} has no bin/compile: check that its URL and #branch are those of a buildpack`,
    );
  }
  // Archives and copies lose the bit now and then.
  for (const program of programs)
    if (/^(?:detect|compile|release)$/.test(program)) await chmod(join(binDir, program), 0o755);
}

function optionsOf({ layout, baseEnv, signal }: BuildContext): {
  cwd: string;
  env: Readonly<Record<string, string>>;
  signal: AbortSignal;
} {
  return { cwd: layout.appDir, env: baseEnv, signal };
}

/** The buildpacks that a `.buildpacks` file names, one a line. */
export async function readBuildpacksFile(appDir: string): Promise<string[]> {
  const text = (await readTextFile(join(appDir, '.buildpacks'))) ?? '';
  return text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
}
