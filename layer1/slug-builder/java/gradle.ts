/** Builds with the app's own Gradle: Debian's is too old for the Java of today. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext } from '../buildpack.ts';
import type { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { exists } from '../nodejs/toolchain.ts';
import { debianPaths, withRuntime } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import {
  type BuildFile,
  buildNames,
  checkGradle,
  gradleOf,
  modulesOf,
  settingsNames,
  signsOfGradle,
} from './gradle-files.ts';
import { gradleFlags } from './gradle-settings.ts';
import { homeOf, trust } from './jdk.ts';

const wrapperProperties = 'gradle/wrapper/gradle-wrapper.properties';
const wrapperJar = 'gradle/wrapper/gradle-wrapper.jar';

/** What of its files there is to read. */
export type GradleSource = { builds: readonly BuildFile[]; modules: readonly string[] };

/** Undefined for an app that is not of Gradle. */
export async function readGradle(appDir: string): Promise<GradleSource | undefined> {
  const names: string[] = await readdir(appDir);
  if (!signsOfGradle.some((sign) => names.includes(sign))) return undefined;
  const settings = await firstOf(appDir, settingsNames);
  const modules = modulesOf(settings?.text ?? '');
  const builds: BuildFile[] = [];
  for (const folder of ['', ...modules]) {
    const build = await firstOf(
      appDir,
      buildNames.map((name) => join(folder, name)),
    );
    if (build !== undefined) builds.push(build);
  }
  return { builds, modules };
}

async function firstOf(appDir: string, files: readonly string[]): Promise<BuildFile | undefined> {
  for (const file of files) {
    const text = await readTextFile(join(appDir, file));
    if (text !== undefined) return { file, text };
  }
  return undefined;
}

/** Before anything is fetched: `invalid` for what cannot be built here. */
export async function checkWrapper(appDir: string, java: string): Promise<void> {
  const script = await readTextFile(join(appDir, 'gradlew'));
  if (script === undefined) {
    throw new FlynnError(
      'invalid',
      'There is no gradlew: an app is built with the Gradle that its wrapper names. Run "gradle wrapper", and commit what it writes: git add gradlew && git add -f gradle/wrapper',
    );
  }
  if (script.includes('gradle-wrapper.jar') && !(await exists(join(appDir, wrapperJar)))) {
    throw new FlynnError(
      'invalid',
      `There is a gradlew, and not the ${wrapperJar} that it starts: a .gitignore may keep jars out. Run "gradle wrapper" where it is missing, and commit it: git add -f gradle/wrapper`,
    );
  }
  checkGradle(gradleOf((await readTextFile(join(appDir, wrapperProperties))) ?? ''), java);
}

export async function buildWithGradle(
  { context, debian, version }: { context: BuildContext; debian: DebianToolchain; version: string },
  task: string,
): Promise<void> {
  const { layout, out } = context;
  out.topic(`Building with ./gradlew ${task}`);
  const { dir } = await debian.install('jdk', [`openjdk-${version}-jdk-headless`]);
  await trust(dir, version, context);
  const home = homeOf(dir, version);
  const own = withRuntime(buildEnv(context), {
    paths: { PATH: [`${home}/bin`], LD_LIBRARY_PATH: debianPaths(dir).LD_LIBRARY_PATH },
    values: { JAVA_HOME: home },
  });
  const userHome = gradleHomeOf(context);
  await forgetScripts(userHome);
  const env = { ...own, GRADLE_USER_HOME: userHome, HOME: layout.scratchDir };
  const command = ['sh', './gradlew', '--no-daemon', '--console=plain', ...(await gradleFlags(context))] as const;
  try {
    await runTool([...command, ...task.split(/\s+/).filter((word) => word !== '')], {
      context,
      env,
      called: `./gradlew ${task}`,
      check: [
        `that it works on a fresh clone with Java ${version}; another task is named with: flynn env set GRADLE_TASK="TASK -x test"`,
        `that Gradle itself can be fetched from the cluster: distributionUrl in ${wrapperProperties} says where it comes from, and may name another address`,
        'that the repositories of its packages can be reached; a mirror of Maven Central is named with: flynn runner env set MAVEN_MIRROR_URL=URL',
        'that it has memory enough: org.gradle.jvmargs in gradle.properties says what it takes, and "flynn limit build memory=2GB" what there is',
      ],
    });
  } finally {
    // What its processes write down of themselves has their arguments in it: a proxy's password, too.
    await rm(join(userHome, 'daemon'), { recursive: true, force: true });
  }
}

export function gradleHomeOf({ layout }: Pick<BuildContext, 'layout'>): string {
  return join(layout.cacheDir, 'gradle');
}

/** What Gradle reads in its home before each build, as one before left it: a build depends on its app and its cluster alone. */
export async function forgetScripts(userHome: string): Promise<void> {
  for (const name of ['init.d', 'init.gradle', 'init.gradle.kts', 'gradle.properties'])
    await rm(join(userHome, name), { recursive: true, force: true });
}
