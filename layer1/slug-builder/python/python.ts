/** The Python buildpack: Debian's Python, and what pip installs in a virtual environment of the app. */
import { join } from 'node:path';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { KeptFolder, keyOf } from '../kept-folder.ts';
import { exists } from '../nodejs/toolchain.ts';
import { type RuntimeEnv, atRunTime, debianPaths, slugDir, withRuntime, writeProfileScript } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import { chooseVersion, wishIn } from '../wanted-version.ts';
import { installationOf, signOf } from './installation.ts';

/** Part of the cache's key: higher when what the builder does to the environment changes. */
const builderVersion = '2';

export const python: Buildpack = {
  name: 'python',
  cacheFolders: ['debian', 'pip', 'venv'],
  async detect({ layout }) {
    return (await signOf(layout.appDir)) === undefined ? undefined : 'Python';
  },
  compile,
};

function pythonEnv(dir: string, appDir: string): RuntimeEnv {
  const { PATH, LD_LIBRARY_PATH } = debianPaths(dir);
  return {
    paths: { PATH: [join(appDir, '.venv/bin'), ...PATH], LD_LIBRARY_PATH },
    values: { PYTHONUNBUFFERED: '1' },
  };
}

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out } = context;
  const { appDir } = layout;
  out.topic('Installing Python');
  const debian = new DebianToolchain(context);
  const wish = (await wishIn(appDir, 'runtime.txt', 'python')) ?? (await wishIn(appDir, '.python-version', 'python'));
  const version = chooseVersion('Python', wish, await debian.versions('python3.', /^python(3\.\d+)$/));
  const runtime = await debian.install('python', [`python${version}`, 'python3-pip', `libpython${version}-dev`]);
  await debian.tidy();
  out.line(
    `${wish === undefined ? 'No runtime.txt or .python-version' : `${wish.file} says ${wish.version}`}: ${runtime.name.split('-').slice(0, 2).join(' ')}`,
  );

  const program = join(runtime.dir, 'usr/bin', `python${version}`);
  const own = withRuntime(context.baseEnv, pythonEnv(runtime.dir, appDir));
  const env = {
    ...withRuntime(buildEnv(context), pythonEnv(runtime.dir, appDir)),
    PIP_CACHE_DIR: join(layout.cacheDir, 'pip'),
  };
  const isInstalled = await installPackages({ context, env, own, program, runtime: runtime.name });
  await collectStatic(context, env);
  await writeProfileScript(appDir, 'python', pythonEnv(atRunTime(runtime.name), slugDir));
  const { PATH = '', LD_LIBRARY_PATH = '' } = own;
  return {
    processTypes: {},
    configVars: {},
    runtimes: [runtime],
    exports: { PATH, LD_LIBRARY_PATH },
    isCacheChanged: debian.isChanged || isInstalled,
  };
}

type Wanted = {
  context: BuildContext;
  /** With the app's variables, and without. */
  env: Readonly<Record<string, string>>;
  own: Readonly<Record<string, string>>;
  program: string;
  runtime: string;
};

/** Answers whether anything was installed anew. */
async function installPackages({ context, env, own, program, runtime }: Wanted): Promise<boolean> {
  const { layout, out, signal } = context;
  const { appDir } = layout;
  const venv = join(appDir, '.venv');
  const kept = new KeptFolder(context, 'venv', venv);
  const { steps, dependsOn, env: logins = {}, check = [] } = await installationOf(context);
  const key = dependsOn === undefined ? undefined : keyOf(builderVersion, runtime, appDir, dependsOn);
  out.topic(`Installing dependencies with pip`);
  if (key !== undefined && (await kept.restore(key))) {
    out.line('Restoring the virtual environment: nothing it depends on has changed');
    return false;
  }
  const options = { cwd: appDir, env: own, signal };
  await runForOutput([program, '-m', 'venv', '--clear', '--without-pip', venv], options);
  const pip = [program, '-m', 'pip', '--python', join(venv, 'bin/python'), 'install'] as const;
  const quiet = [
    '--no-compile',
    '--no-input',
    '--disable-pip-version-check',
    '--progress-bar=off',
    '--no-warn-script-location',
  ];
  for (const { args, called } of steps) {
    await runTool([...pip, ...quiet, ...args], {
      context,
      env: { ...env, ...logins },
      called,
      check: [
        'that every package and version exists, and supports this Python',
        'that the package index can be reached from the cluster; another is named with: flynn runner env set PIP_INDEX_URL=URL',
        ...check,
        ...(args.includes('.') ? ['that the app can be made a package: its own words are above'] : []),
      ],
    });
  }
  // Times in a slug are all the same, so compiled files are told apart by what they were made of.
  await runForOutput(
    [program, '-m', 'compileall', '-q', '-j', '2', '--invalidation-mode', 'unchecked-hash', venv],
    options,
  ).catch((error: unknown) => {
    if (signal.aborted) throw error;
    // A package may carry files for other versions; what cannot be compiled is not meant to be imported.
  });
  if (key !== undefined) await kept.keep(key);
  return true;
}

/** Django's static files belong to the slug. */
async function collectStatic(context: BuildContext, env: Readonly<Record<string, string>>): Promise<void> {
  const { layout, out, signal, appEnv } = context;
  if (!(await exists(join(layout.appDir, 'manage.py'))) || (appEnv['DISABLE_COLLECTSTATIC'] ?? '0') !== '0') return;
  const python = join(layout.appDir, '.venv/bin/python');
  const test = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("django") is None)';
  const isDjango = await runForOutput([python, '-c', test], { cwd: layout.appDir, env, signal }).then(
    () => true,
    (error: unknown) => {
      if (signal.aborted) throw error;
      return false;
    },
  );
  if (!isDjango) return;
  out.topic('Collecting static files');
  await runTool([python, 'manage.py', 'collectstatic', '--noinput'], {
    context,
    env,
    called: 'python manage.py collectstatic --noinput',
    check: [
      'that STATIC_ROOT is set, and that the settings can be read with the variables of the app: flynn env',
      'or do without: flynn env set DISABLE_COLLECTSTATIC=1',
    ],
  });
}
