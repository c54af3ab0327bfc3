/** Which jar is the app, and how is it started? */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { exists } from '../nodejs/toolchain.ts';
import { quoted } from '../word.ts';

/** Quarkus makes a folder of the app, and beside it a jar that has neither its packages nor a main class. */
const ofQuarkus = 'quarkus-app/quarkus-run.jar';
/** As plugins call the jar that has all it needs, where the plain one is there too. */
const hasAll = /-(?:jar-with-dependencies|all|exec|fat|runner|shaded|uber)\.jar$/;

export type Jar = {
  /** From the app's top. */
  path: string;
  /** What leads a framework that asks for no PORT by itself to it. */
  flags: readonly string[];
};

/** `why`: there is none, though there are jars. */
export type Choice = Readonly<{ jar?: Jar; why?: string }>;

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

/** Maven has its jars where `quarkus-app` is, and Gradle in `libs` beside that. */
export async function chooseJar(folders: { quarkus: string; jars: string }, context: BuildContext): Promise<Choice> {
  const { appDir } = context.layout;
  const quarkus = join(folders.quarkus, ofQuarkus);
  if (await exists(join(appDir, quarkus))) return { jar: { path: quarkus, flags: ['-Dquarkus.http.port=$PORT'] } };
  const jars = possibleJars(await readdir(join(appDir, folders.jars)).catch(() => []));
  const startable = new Map<string, string>();
  for (const name of jars) {
    const manifest = await manifestOf(join(folders.jars, name), context);
    if (hasMainClass(manifest)) startable.set(name, manifest);
  }
  const names = [...startable.keys()];
  const found = jarToStart(names);
  if (found !== undefined)
    return { jar: { path: join(folders.jars, found), flags: flagsOf(startable.get(found) ?? '') } };
  if (names.length > 0) return { why: `Which of ${names.join(', ')} is started only a Procfile can say` };
  return jars.length === 0
    ? {}
    : { why: `"java -jar" cannot start ${jars.join(', ')}: its manifest names no Main-Class` };
}

/** What the app says itself in JAVA_OPTS comes later, and counts. */
export function commandOf({ path, flags }: Jar): string {
  return ['java', ...flags, '$JAVA_OPTS', '-jar', quoted(path)].join(' ');
}

export function hasMainClass(manifest: string): boolean {
  return /^Main-Class:[ \t]*\S/im.test(manifest);
}

function flagsOf(manifest: string): string[] {
  return /^Spring-Boot-Version:/im.test(manifest) ? ['-Dserver.port=$PORT'] : [];
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
