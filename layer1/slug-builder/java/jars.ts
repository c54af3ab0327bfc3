/** Which jar is the app? */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { exists } from '../nodejs/toolchain.ts';

/** Quarkus makes a folder of the app, and beside it a jar that has neither its packages nor a main class. */
const ofQuarkus = 'target/quarkus-app/quarkus-run.jar';
/** As plugins call the jar that has all it needs, where the plain one is there too. */
const hasAll = /-(?:jar-with-dependencies|all|exec|fat|runner|shaded|uber)\.jar$/;

/** Of the names in a folder: what is not sources, documentation or an original. */
export function possibleJars(names: readonly string[]): string[] {
  return names
    .filter((name) => name.endsWith('.jar') && !/(?:-(?:sources|javadoc|tests|plain)\.jar$)|^original-/.test(name))
    .sort();
}

/** Of those that `java -jar` can start; undefined when there is none, or several that could be it. */
export function jarToStart(startable: readonly string[]): string | undefined {
  if (startable.length === 1) return startable[0];
  const whole = startable.filter((name) => hasAll.test(name));
  return whole.length === 1 ? whole[0] : undefined;
}

/** Its path in the app, of those in `folder`. Undefined where nothing tells which it is: said why, unless there is a Procfile. */
export async function findJar(folder: string, context: BuildContext): Promise<string | undefined> {
  const { appDir } = context.layout;
  if (folder === 'target' && (await exists(join(appDir, ofQuarkus)))) return ofQuarkus;
  const jars = possibleJars(await readdir(join(appDir, folder)).catch(() => []));
  const startable: string[] = [];
  for (const name of jars) if (hasMainClass(await manifestOf(join(folder, name), context))) startable.push(name);
  const found = jarToStart(startable);
  if (found !== undefined) return join(folder, found);
  if (await exists(join(appDir, 'Procfile'))) return undefined;
  if (startable.length > 0) context.out.line(`Which of ${startable.join(', ')} is started only a Procfile can say`);
  else if (jars.length > 0)
    context.out.line(`"java -jar" cannot start ${jars.join(', ')}: its manifest names no Main-Class`);
  return undefined;
}

export function hasMainClass(manifest: string): boolean {
  return /^Main-Class:[ \t]*\S/im.test(manifest);
}

/** Empty for a jar that has none, and for what is no jar. */
async function manifestOf(path: string, { layout, baseEnv, signal }: BuildContext): Promise<string> {
  try {
    const command = ['unzip', '-p', path, 'META-INF/MANIFEST.MF'] as const;
    return await runForOutput(command, { cwd: layout.appDir, env: baseEnv, signal });
  } catch (error) {
    if (error instanceof FlynnError && error.detail['exitCode'] !== undefined && !signal.aborted) return '';
    throw error;
  }
}
