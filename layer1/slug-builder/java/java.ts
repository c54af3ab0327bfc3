/** The Java buildpack: builds with Maven what has a pom.xml, and runs a jar. The slug has the runtime, not the compiler. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { exists } from '../nodejs/toolchain.ts';
import { type RuntimeEnv, atRunTime, debianPaths, withRuntime, writeProfileScript } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import { whileFilling } from '../tool-store.ts';
import { findJar, possibleJars } from './jars.ts';
import { settingsFlags } from './maven-settings.ts';
import { chooseJava, javaWish } from './versions.ts';

const architectures: Readonly<Record<string, string>> = { x64: 'amd64' };

export const java: Buildpack = {
  name: 'java',
  async detect({ layout }) {
    if (await exists(join(layout.appDir, 'pom.xml'))) return 'Java';
    return possibleJars(await readdir(layout.appDir)).length === 1 ? 'Java' : undefined;
  },
  compile,
};

function homeOf(dir: string, version: string): string {
  return `${dir}/usr/lib/jvm/java-${version}-openjdk-${architectures[process.arch] ?? process.arch}`;
}

function javaEnv(dir: string, version: string): RuntimeEnv {
  const home = homeOf(dir, version);
  return {
    paths: { PATH: [`${home}/bin`], LD_LIBRARY_PATH: debianPaths(dir).LD_LIBRARY_PATH },
    values: {
      JAVA_HOME: home,
      // Otherwise three quarters of the job's memory stay unused.
      JAVA_TOOL_OPTIONS: '-XX:MaxRAMPercentage=70 -XX:+ExitOnOutOfMemoryError',
    },
  };
}

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out, baseEnv } = context;
  const { appDir } = layout;
  const pom = await readTextFile(join(appDir, 'pom.xml'));
  const wish = javaWish({ systemProperties: await readTextFile(join(appDir, 'system.properties')), pom });

  out.topic('Installing Java');
  const debian = new DebianToolchain(context);
  const version = chooseJava(wish, await debian.versions('openjdk-', /^openjdk-(\d+)-jre-headless$/));
  const runtime = await debian.install('java', [`openjdk-${version}-jre-headless`]);
  await trust(runtime.dir, version, context);
  out.line(
    `${wish === undefined ? 'No system.properties' : `${wish.file} says ${wish.version}`}: Java ${runtime.name.split('-')[1] ?? version}`,
  );
  const isFilled =
    pom !== undefined &&
    (await whileFilling(join(layout.cacheDir, 'maven'), context, () => buildWithMaven(context, debian, version)));
  await debian.tidy();

  await writeProfileScript(appDir, 'java', javaEnv(atRunTime(runtime.name), version));
  const jar = await findJar(pom === undefined ? '.' : 'target', context);
  return {
    processTypes: jar === undefined ? {} : { web: `java $JAVA_OPTS -jar ${jar}` },
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

/** The certificates that everything else here trusts, as Java reads them. Without a password there is nothing random in it. */
async function trust(dir: string, version: string, context: BuildContext): Promise<void> {
  const { baseEnv, layout, signal } = context;
  const bundle = baseEnv['SSL_CERT_FILE'] ?? '/etc/ssl/certs/ca-certificates.crt';
  const store = join(homeOf(dir, version), 'lib/security/cacerts');
  await rm(store, { force: true });
  const flags = ['-nokeys', '-jdktrust', 'anyExtendedKeyUsage', '-certpbe', 'NONE', '-nomac', '-passout', 'pass:'];
  await runForOutput(['openssl', 'pkcs12', '-export', '-in', bundle, '-out', store, ...flags], {
    cwd: layout.scratchDir,
    env: baseEnv,
    signal,
  });
}

async function buildWithMaven(context: BuildContext, debian: DebianToolchain, version: string): Promise<void> {
  const { layout, out, appEnv } = context;
  const { appDir, scratchDir, cacheDir } = layout;
  out.topic('Building with Maven');
  const { dir } = await debian.install('maven', ['maven', `openjdk-${version}-jdk-headless`]);
  await trust(dir, version, context);
  const hasWrapper = await exists(join(appDir, 'mvnw'));
  const program = hasWrapper ? 'mvnw' : 'mvn';
  const split = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
  const goals = split(appEnv['MAVEN_CUSTOM_GOALS'] ?? 'clean package');
  const options = split(appEnv['MAVEN_CUSTOM_OPTS'] ?? '-DskipTests');
  const home = homeOf(dir, version);
  const own = withRuntime(buildEnv(context), {
    paths: {
      PATH: [`${home}/bin`, join(dir, 'usr/share/maven/bin')],
      LD_LIBRARY_PATH: debianPaths(dir).LD_LIBRARY_PATH,
    },
    values: { JAVA_HOME: home, M2_HOME: join(dir, 'usr/share/maven') },
  });
  // What a wrapper fetches goes below the home folder, and that is the app.
  const env = { ...own, MAVEN_USER_HOME: join(cacheDir, 'maven'), HOME: scratchDir };
  const flags = ['-B', '-ntp', `-Dmaven.repo.local=${join(cacheDir, 'maven/repository')}`];
  const command = hasWrapper ? (['sh', './mvnw'] as const) : (['mvn'] as const);
  // Of several -s Maven takes the first, and the options may have one.
  await runTool([...command, ...flags, ...options, ...(await settingsFlags(context)), ...goals], {
    context,
    env,
    called: `${program} ${[...options, ...goals].join(' ')}`,
    check: [
      'that it works on a fresh clone with this Java',
      "that Maven's repository can be reached from the cluster; a mirror is named with: flynn runner env set MAVEN_MIRROR_URL=URL",
      'that a repository that asks for a password has a <server> in a settings.xml at the top of the repository, with ${env.NAME} for a variable of the app',
    ],
  });
}
