/**
 * Submodules of a repository with a Dockerfile. git lays files on the disk that anybody may have made: a step does that as the
 * app's user, and only bytes of it join the context.
 */
import { chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { parseJsonAs } from '@flynn/controller/images/image-config';
import { z } from 'zod';
import { compileInputSchema } from './build.ts';
import type { BuildContext, Layout } from './buildpack.ts';
import { sshEnv } from './ssh-key.ts';
import { fetchSubmodules, modulesFile, toldFile, toldSchema } from './submodules.ts';
import { type Step, appUserId, runStep, streamStep } from './user.ts';

/** Texts of the source: which commits belong where, and where they come from. */
export type ToldSubmodules = { told: string; modules?: string | undefined };

export const submodulesInputSchema = compileInputSchema.pick({ layout: true, appEnv: true }).extend({
  told: z.string(),
  modules: z.string().optional(),
});

export type SubmodulesDeps = {
  layout: Layout;
  /** Runs a step of main.ts: the program and its first arguments. */
  self: readonly [string, ...string[]];
  env: Readonly<Record<string, string>>;
};

/** The step `submodules`: what they hold is in its place in the app's folder then. */
export async function runSubmodules(
  { layout, appEnv, told, modules }: z.output<typeof submodulesInputSchema>,
  { baseEnv, out, signal }: Pick<BuildContext, 'baseEnv' | 'out' | 'signal'>,
): Promise<void> {
  await writeFile(join(layout.appDir, toldFile), told);
  if (modules !== undefined) await writeFile(join(layout.appDir, modulesFile), modules);
  const env = { ...baseEnv, ...(await sshEnv({ layout, appEnv })) };
  await fetchSubmodules({ layout, baseEnv: env, out, signal });
}

/**
 * Has them fetched; the answer gives a tar archive of what they hold, at their paths, each time it is called. Fails as the step
 * does, which tells why.
 */
export async function layOutSubmodules(
  { told, modules }: ToldSubmodules,
  appEnv: Readonly<Record<string, string>>,
  { layout, self, env }: SubmodulesDeps,
  { fileBytes, signal }: { fileBytes: number; signal: AbortSignal },
): Promise<(limited: AbortSignal) => Readable> {
  const paths = Object.keys(parseJsonAs(toldSchema, told, toldFile));
  for (const dir of [layout.appDir, layout.scratchDir]) {
    await rm(dir, { recursive: true, force: true });
    await mkdir(dir, { recursive: true });
    if (process.getuid?.() === 0) await chown(dir, appUserId, appUserId);
  }
  const step = { cwd: layout.scratchDir, env, signal, fileBytes };
  const input: z.input<typeof submodulesInputSchema> = { layout, appEnv: { ...appEnv }, told, modules };
  await runStep({ ...step, command: [...self, 'submodules'] }, Readable.from([JSON.stringify(input)]));
  // The same files are the same bytes: the engine finds its steps done.
  const sameBytes = ['--format=gnu', '--sort=name', '--mtime=@0', '--numeric-owner', '--owner=0', '--group=0'];
  const command: Step['command'] = ['tar', '-C', layout.appDir, ...sameBytes, '-cf', '-', '--', ...paths];
  return (limited) => Readable.from(streamStep({ ...step, signal: limited, command }), { objectMode: false });
}
