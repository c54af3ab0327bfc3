/** The Python buildpack: Debian's Python, and what pip installs in a virtual environment of the app. */
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { KeptFolder, keyOf } from '../kept-folder.ts';
import { exists } from '../nodejs/toolchain.ts';
import { type RuntimeEnv, atRunTime, debianPaths, slugDir, withRuntime, writeProfileScript } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import { chooseVersion, wishIn } from '../wanted-version.ts';
import { requirementsOfPipfileLock } from './pipfile.ts';

/** The first that is there says what to install. */
const signs = ['requirements.txt', 'Pipfile.lock', 'pyproject.toml', 'setup.py'] as const;
/** Part of the cache's key: higher when what the builder does to the environment changes. */
const builderVersion = '1';

export const python: Buildpack = {
  name: 'python',
  async detect({ layout }) {
    return (await signOf(layout.appDir)) === undefined ? undefined : 'Python';
  },
  compile,
};

async function signOf(appDir: string): Promise<(typeof signs)[number] | undefined> {
  for (const sign of signs) if (await exists(join(appDir, sign))) return sign;
  return undefined;
}

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

type Installation = {
  context: BuildContext;
  /** With the app's variables, and without. */
  env: Readonly<Record<string, string>>;
  own: Readonly<Record<string, string>>;
  program: string;
  runtime: string;
};

/** Answers whether anything was installed anew. */
async function installPackages({ context, env, own, program, runtime }: Installation): Promise<boolean> {
  const { layout, out, signal } = context;
  const { appDir } = layout;
  const sign = await signOf(appDir);
  const venv = join(appDir, '.venv');
  const kept = new KeptFolder(context, 'venv', venv);
  const text = await requirementsText(appDir);
  // A requirement that is part of the source changes with it.
  const key =
    sign === 'requirements.txt' || sign === 'Pipfile.lock' ? keyOf(builderVersion, runtime, appDir, text) : undefined;
  const isKeepable = key !== undefined && !/^\s*(?:-e\b|--editable\b|\.|file:|\S+\s*@\s*file:)/m.test(text);
  out.topic(`Installing dependencies with pip`);
  if (isKeepable && (await kept.restore(key))) {
    out.line('Restoring the virtual environment: nothing it depends on has changed');
    return false;
  }
  const options = { cwd: appDir, env: own, signal };
  await runForOutput([program, '-m', 'venv', '--clear', '--without-pip', venv], options);
  const [what, called] = await toInstall(sign, context);
  const pip = [program, '-m', 'pip', '--python', join(venv, 'bin/python'), 'install'] as const;
  const quiet = [
    '--no-compile',
    '--no-input',
    '--disable-pip-version-check',
    '--progress-bar=off',
    '--no-warn-script-location',
  ];
  await runTool([...pip, ...quiet, ...what], {
    context,
    env,
    called,
    check: [
      'that every package and version exists, and supports this Python',
      'that the package index can be reached from the cluster; another is named with: flynn runner env set PIP_INDEX_URL=URL',
    ],
  });
  // Times in a slug are all the same, so compiled files are told apart by what they were made of.
  await runForOutput(
    [program, '-m', 'compileall', '-q', '-j', '2', '--invalidation-mode', 'unchecked-hash', venv],
    options,
  ).catch((error: unknown) => {
    if (signal.aborted) throw error;
    // A package may carry files for other versions; what cannot be compiled is not meant to be imported.
  });
  if (isKeepable) await kept.keep(key);
  return true;
}

async function toInstall(
  sign: (typeof signs)[number] | undefined,
  { layout, out }: BuildContext,
): Promise<[string[], string]> {
  if (sign === 'requirements.txt') return [['-r', sign], 'pip install -r requirements.txt'];
  if (sign === 'Pipfile.lock') {
    const file = join(layout.scratchDir, 'requirements-of-pipfile.txt');
    await writeFile(file, requirementsOfPipfileLock(await readFile(join(layout.appDir, sign), 'utf8')));
    return [['-r', file], 'pip install of Pipfile.lock'];
  }
  for (const [lock, command] of [
    ['poetry.lock', 'poetry export -o requirements.txt'],
    ['uv.lock', 'uv export -o requirements.txt'],
  ] as const) {
    if (!(await exists(join(layout.appDir, lock)))) continue;
    out.warn(`${lock} is not read: each build may get other versions.\nCommit what it says for pip: ${command}`);
  }
  return [['.'], 'pip install .'];
}

/** All that may say what is installed, in an order that is always the same. */
async function requirementsText(appDir: string): Promise<string> {
  const names = (await readdir(appDir)).filter((name) =>
    /^(?:Pipfile\.lock|.*(?:requirements|constraints).*\.(?:txt|in))$/i.test(name),
  );
  const nested: string[] = await readdir(join(appDir, 'requirements')).catch(() => []);
  const files = [...names.sort(), ...nested.sort().map((name) => `requirements/${name}`)];
  const texts = await Promise.all(
    files.map(async (file) => `${file}\n${(await readTextFile(join(appDir, file)).catch(() => '')) ?? ''}\n`),
  );
  return texts.join('');
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
