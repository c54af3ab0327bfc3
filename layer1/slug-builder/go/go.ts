/** The Go buildpack: Debian's Go builds the module's programs into bin/. None of the toolchain is in the slug. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { exists } from '../nodejs/toolchain.ts';
import { runTool } from '../tool-run.ts';
import { whileFilling } from '../tool-store.ts';
import { chooseVersion, wishIn } from '../wanted-version.ts';
import { baseOf, checkGoVersion, parseGoMod, webBinary } from './modules.ts';
import { programsOf, whatToCheck } from './programs.ts';

export const go: Buildpack = {
  name: 'go',
  cacheFolders: ['debian', 'go'],
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'go.mod'))) ? 'Go' : undefined),
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out, appEnv } = context;
  const { appDir, cacheDir } = layout;
  const module = parseGoMod(await readFile(join(appDir, 'go.mod'), 'utf8'));

  out.topic('Installing Go');
  const debian = new DebianToolchain(context);
  const available = await debian.versions('golang-1', /^golang-(1\.\d+)-go$/);
  const wish = await wishIn(appDir, '.go-version', 'go');
  const version = chooseVersion('Go', wish, available);
  const { name, dir } = await debian.install('go', [`golang-${version}-go`]);
  await debian.tidy();
  const full = name.split('-')[1] ?? version;
  if (module.goVersion !== undefined)
    checkGoVersion({ version: module.goVersion, file: 'go.mod' }, full, available.join(', '));
  out.line(`go.mod says ${module.goVersion ?? 'nothing'}: Go ${full}`);

  const root = join(dir, 'usr/lib', `go-${version}`);
  const PATH = `${root}/bin:${context.baseEnv['PATH'] ?? ''}`;
  const env = {
    ...buildEnv(context),
    PATH,
    GOROOT: root,
    GOPATH: join(layout.scratchDir, 'go'),
    GOCACHE: join(cacheDir, 'go/build'),
    GOMODCACHE: join(cacheDir, 'go/modules'),
    // Another one would have to be fetched from where only modules come from.
    GOTOOLCHAIN: 'local',
    GOFLAGS: `-modcacherw ${appEnv['GOFLAGS'] ?? context.baseEnv['GOFLAGS'] ?? ''}`.trim(),
  };
  let programs: string[] = [];
  const isFilled = await whileFilling(join(cacheDir, 'go'), context, async () => {
    programs = await programsOf(context, env);
    await buildPrograms(programs, context, env);
  });
  const web = webBinary(programs.map(baseOf), module.path);
  return {
    processTypes: web === undefined ? {} : { web },
    configVars: {},
    runtimes: [],
    exports: { PATH, GOROOT: root },
    isCacheChanged: debian.isChanged || isFilled,
  };
}

async function buildPrograms(
  programs: readonly string[],
  context: BuildContext,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const { layout, out, signal } = context;
  out.topic(`Building ${programs.length === 1 ? 'the program' : `${programs.length} programs`} with go build`);
  await mkdir(join(layout.appDir, 'bin'), { recursive: true });
  await runTool(['go', 'build', '-trimpath', '-tags', 'heroku', '-o', 'bin/', ...programs], {
    context,
    env,
    called: `go build -o bin/ ${programs.join(' ')}`,
    check: whatToCheck,
  });
  await runForOutput(['go', 'clean', '-testcache'], { cwd: layout.appDir, env, signal });
}
