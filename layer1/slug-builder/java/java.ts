/** The Java buildpack: builds with Maven or Gradle, and runs what comes out. The slug has the runtime, not the compiler. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { exists } from '../nodejs/toolchain.ts';
import { atRunTime, withRuntime, writeProfileScript } from '../runtime-env.ts';
import { whileFilling } from '../tool-store.ts';
import { type GradleSource, buildWithGradle, checkWrapper, gradleHomeOf, readGradle } from './gradle.ts';
import { isOfMicronaut, javaOfGradle, taskOf } from './gradle-files.ts';
import { startOfGradle, tidyGradle } from './gradle-start.ts';
import { chooseJar, commandOf, possibleJars } from './jars.ts';
import { javaEnv, trust } from './jdk.ts';
import { buildWithMaven } from './maven.ts';
import { chooseJava, javaWish } from './versions.ts';

export const java: Buildpack = {
  name: 'java',
  cacheFolders: ['debian', 'maven', 'gradle'],
  async detect({ layout }) {
    if (await exists(join(layout.appDir, 'pom.xml'))) return 'Java';
    if ((await readGradle(layout.appDir)) !== undefined) return 'Gradle';
    return possibleJars(await readdir(layout.appDir)).length === 1 ? 'Java' : undefined;
  },
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out, baseEnv } = context;
  const { appDir } = layout;
  const pom = await readTextFile(join(appDir, 'pom.xml'));
  const gradle = pom === undefined ? await readGradle(appDir) : undefined;
  const ofGradle = javaOfGradle(gradle?.builds ?? []);
  const wish = javaWish({ systemProperties: await readTextFile(join(appDir, 'system.properties')), pom }) ?? ofGradle;

  out.topic('Installing Java');
  const debian = new DebianToolchain(context);
  const available = await debian.versions('openjdk-', /^openjdk-(\d+)-jre-headless$/);
  const version = chooseJava(wish, available);
  if (gradle !== undefined) await checkWrapper(appDir, version);
  const runtime = await debian.install('java', [`openjdk-${version}-jre-headless`]);
  await trust(runtime.dir, version, context);
  out.line(
    `${wish === undefined ? 'No system.properties' : `${wish.file} says ${wish.version}`}: Java ${runtime.name.split('-')[1] ?? version}`,
  );
  if (ofGradle?.isExact === true && ofGradle.version !== version) {
    out.warn(
      `${ofGradle.file} asks for a toolchain of Java ${ofGradle.version}, and no other: here is ${version}. Gradle fails unless it may fetch that one itself.\nAsk for a toolchain of ${available.join(' or ')}; options.release compiles for an older one.`,
    );
  }
  const { isFilled, web } = await built({ context, debian, version }, { hasPom: pom !== undefined, gradle });
  await debian.tidy();

  await writeProfileScript(appDir, 'java', javaEnv(atRunTime(runtime.name), version));
  return {
    processTypes: web === undefined ? {} : { web },
    configVars: {},
    runtimes: [runtime],
    exports: Object.fromEntries(
      Object.entries(withRuntime(baseEnv, javaEnv(runtime.dir, version))).filter(
        ([name, value]) => baseEnv[name] !== value,
      ),
    ),
    isCacheChanged: debian.isChanged || isFilled,
  };
}

type Tools = { context: BuildContext; debian: DebianToolchain; version: string };
type Built = {
  /** Whether the cache is worth storing again. */
  isFilled: boolean;
  /** Undefined where a Procfile is needed. */
  web: string | undefined;
};

async function built(tools: Tools, app: { hasPom: boolean; gradle: GradleSource | undefined }): Promise<Built> {
  const { context, debian, version } = tools;
  if (app.gradle !== undefined) return builtByGradle(tools, app.gradle);
  const { cacheDir } = context.layout;
  const isFilled =
    app.hasPom &&
    (await whileFilling(join(cacheDir, 'maven'), context, () => buildWithMaven(context, debian, version)));
  const folder = app.hasPom ? 'target' : '.';
  const choice = await chooseJar({ quarkus: folder, jars: folder }, context);
  if (choice.jar !== undefined) return { isFilled, web: commandOf(choice.jar) };
  const hasProcfile = await exists(join(context.layout.appDir, 'Procfile'));
  if (choice.why !== undefined && !hasProcfile) context.out.line(choice.why);
  return { isFilled, web: undefined };
}

async function builtByGradle(tools: Tools, { builds, modules }: GradleSource): Promise<Built> {
  const { context } = tools;
  const named = context.appEnv['GRADLE_TASK']?.trim() ?? '';
  const task = named === '' ? taskOf(builds) : named;
  const app = { modules, isOfMicronaut: isOfMicronaut(builds) };
  const isFilled = await whileFilling(gradleHomeOf(context), context, () => buildWithGradle(tools, task));
  const web = await startOfGradle(app, context);
  await tidyGradle(app, context);
  return { isFilled, web };
}
