/** Builds what has a pom.xml. */
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import type { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { exists } from '../nodejs/toolchain.ts';
import { debianPaths, withRuntime } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import { homeOf, trust } from './jdk.ts';
import { settingsFlags } from './maven-settings.ts';

export async function buildWithMaven(context: BuildContext, debian: DebianToolchain, version: string): Promise<void> {
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
