/** How is what Gradle built started? */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { exists } from '../nodejs/toolchain.ts';
import { quoted } from '../word.ts';
import { chooseJar, commandOf } from './jars.ts';

/** The app as it was built. `modules`: folders of it, without the top. */
export type GradleApp = { modules: readonly string[]; isOfMicronaut: boolean };

/**
 * What `installDist` made, else the jar that can be started, of the top or of the one module that has such. Undefined where nothing
 * tells which it is: said why, unless there is a Procfile.
 */
export async function startOfGradle(app: GradleApp, context: BuildContext): Promise<string | undefined> {
  const flags = app.isOfMicronaut ? ['-Dmicronaut.server.port=$PORT'] : [];
  const commands: string[] = [];
  const reasons: string[] = [];
  for (const module of ['', ...app.modules]) {
    const build = join(module, 'build');
    const program = await installedProgram(build, context);
    if (program !== undefined) {
      commands.push(flags.length === 0 ? program : `JAVA_OPTS="${flags.join(' ')} $JAVA_OPTS" ${program}`);
      continue;
    }
    const { jar, why } = await chooseJar({ quarkus: build, jars: join(build, 'libs') }, context);
    if (jar !== undefined) commands.push(commandOf({ ...jar, flags: [...jar.flags, ...flags] }));
    else if (why !== undefined) reasons.push(why);
  }
  if (commands.length === 1) return commands[0];
  if (await exists(join(context.layout.appDir, 'Procfile'))) return undefined;
  if (commands.length > 1) reasons.unshift(`Only a Procfile can say which of these is started: ${commands.join(', ')}`);
  for (const reason of reasons) context.out.line(reason);
  return undefined;
}

/** A script of the `application` plugin, which has the app's packages beside it, as a word of a command line. */
async function installedProgram(build: string, { layout }: BuildContext): Promise<string | undefined> {
  const folder = join(build, 'install');
  const programs: string[] = [];
  for (const name of await namesIn(join(layout.appDir, folder))) {
    const bin = join(folder, name, 'bin');
    for (const file of await namesIn(join(layout.appDir, bin)))
      if (!file.endsWith('.bat')) programs.push(quoted(join(bin, file)));
  }
  return programs.length === 1 ? programs[0] : undefined;
}

/** Gradle's own notes, and what a module is built from: nothing of them runs. */
const betweenBuilds = ['.gradle', '.kotlin'];
const forNobody = ['tmp', 'kotlin', 'reports', 'test-results', 'docs'];
/** A Procfile may start what is in these. */
const unstarted = ['classes', 'distributions', 'generated', 'resources', 'scripts'];

/** Leaves out of the slug what the app does not need to run. */
export async function tidyGradle(app: GradleApp, { layout }: BuildContext): Promise<void> {
  const hasProcfile = await exists(join(layout.appDir, 'Procfile'));
  const paths = [...betweenBuilds];
  for (const module of ['', ...app.modules])
    for (const name of [...forNobody, ...(hasProcfile ? [] : unstarted)]) paths.push(join(module, 'build', name));
  for (const path of paths) await rm(join(layout.appDir, path), { recursive: true, force: true });
}

async function namesIn(dir: string): Promise<string[]> {
  return readdir(dir).catch(() => []);
}
