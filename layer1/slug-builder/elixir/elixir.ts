/** The Elixir buildpack: Debian's Elixir and Erlang, and what Mix makes of an app: a release where it says how, else itself. */
import { readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { keyOf } from '../kept-folder.ts';
import { exists } from '../nodejs/toolchain.ts';
import { atRunTime, withRuntime, writeProfileScript } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import { type Erlang, elixirEnv, installErlang } from './erlang.ts';
import { removeFetchedHistory } from './fetched-history.ts';
import { KeptBuild } from './kept-build.ts';
import { type MixProject, readMix, startOfMix } from './mix-files.ts';

/** Part of the cache's key: higher when what the builder does to packages changes. */
const builderVersion = '1';

export const elixir: Buildpack = {
  name: 'elixir',
  cacheFolders: ['debian', 'elixir'],
  async detect({ layout }) {
    const text = await readTextFile(join(layout.appDir, 'mix.exs'));
    if (text === undefined) return undefined;
    return readMix(text).isPhoenix ? 'Phoenix' : 'Elixir';
  },
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out, appEnv } = context;
  const { appDir } = layout;
  const project = readMix(await readFile(join(appDir, 'mix.exs'), 'utf8'));
  const mixEnv = /^\w+$/.exec(appEnv['MIX_ENV'] ?? '')?.[0] ?? 'prod';
  out.topic('Installing Elixir');
  const debian = new DebianToolchain(context);
  const erlang = await installErlang(debian);
  await debian.tidy();
  const version = /^elixir-([\d.]*\d)/.exec(erlang.name)?.[1] ?? '';
  out.line(`Elixir ${version}: the one there is`);

  const key = keyOf(builderVersion, erlang.name, appDir, mixEnv, ...(await whatPackagesDependOn(appDir)));
  const kept = new KeptBuild(context, { key, mixEnv });
  const mix = new Mix(context, erlang, mixEnv);
  const isKept = await kept.restore();
  out.topic(isKept ? 'Restoring packages: nothing they depend on has changed' : 'Fetching and compiling packages');
  await mix.run('deps.get', '--only', mixEnv);
  await mix.run('deps.compile');
  const hasNewPackages = !isKept && (await kept.keepPackages());
  out.topic('Compiling');
  await mix.run('compile');
  const hasNewTools = (await makeAssets(project, mix, context)) && (await kept.takeTools());
  const web = startOfMix(project, project.hasReleases ? await makeRelease(mix, context, mixEnv) : undefined);
  await removeFetchedHistory(context);

  await writeProfileScript(appDir, 'elixir', elixirEnv(atRunTime(erlang.name), mixEnv));
  const { PATH = '', LD_LIBRARY_PATH = '' } = withRuntime(context.baseEnv, elixirEnv(erlang.dir, mixEnv));
  return {
    processTypes: { web },
    configVars: {},
    runtimes: [{ name: erlang.name, dir: erlang.dir }],
    exports: { PATH, LD_LIBRARY_PATH },
    isCacheChanged: debian.isChanged || hasNewPackages || hasNewTools,
  };
}

/** Texts, of the lock and of what is configured while packages are compiled. */
async function whatPackagesDependOn(appDir: string): Promise<string[]> {
  const names: string[] = await readdir(join(appDir, 'config')).catch(() => []);
  const configs = names.filter((name) => name.endsWith('.exs') && name !== 'runtime.exs').sort();
  const files = ['mix.exs', 'mix.lock', ...configs.map((name) => join('config', name))];
  const texts: string[] = [];
  for (const file of files) {
    const text = await readTextFile(join(appDir, file));
    if (text !== undefined) texts.push(file, text);
  }
  return texts;
}

/** Answers whether there was anything to make. */
async function makeAssets(project: MixProject, mix: Mix, { layout, out }: BuildContext): Promise<boolean> {
  const isDigested = project.isPhoenix && (await exists(join(layout.appDir, 'priv/static')));
  if (!project.hasAssets && !isDigested) return false;
  const task = project.hasAssets ? 'assets.deploy' : 'phx.digest';
  out.topic(`Making assets with mix ${task}`);
  await mix.run(task);
  return true;
}

async function makeRelease(
  mix: Mix,
  { layout, out }: BuildContext,
  mixEnv: string,
): Promise<{ path: string; name: string; hasServer: boolean } | undefined> {
  const { appDir } = layout;
  out.topic('Making a release');
  await mix.run('release', '--overwrite');
  const folder = join('_build', mixEnv, 'rel');
  const names: string[] = await readdir(join(appDir, folder)).catch(() => []);
  const [name] = names;
  if (name === undefined || names.length > 1) return undefined;
  // A release has all of that itself; a Procfile may name something else.
  if (!(await exists(join(appDir, 'Procfile'))))
    for (const path of ['deps', join('_build', mixEnv, 'lib')])
      await rm(join(appDir, path), { recursive: true, force: true });
  const path = join(folder, name);
  return { path, name, hasServer: await exists(join(appDir, path, 'bin/server')) };
}

class Mix {
  readonly #context: BuildContext;
  readonly #env: Readonly<Record<string, string>>;

  constructor(context: BuildContext, { dir, rebar }: Erlang, mixEnv: string) {
    const { layout, baseEnv } = context;
    this.#context = context;
    const home = join(layout.scratchDir, 'mix');
    const own = {
      HEX_CACERTS_PATH: baseEnv['SSL_CERT_FILE'] ?? '/etc/ssl/certs/ca-certificates.crt',
      ...buildEnv(context),
      MIX_ENV: mixEnv,
      // What they keep below the home folder would be part of the app.
      MIX_HOME: home,
      HEX_HOME: join(home, 'hex'),
      REBAR_CACHE_DIR: join(home, 'rebar'),
      MIX_REBAR3: rebar,
    };
    this.#env = withRuntime(own, elixirEnv(dir, mixEnv));
  }

  run(...args: readonly [string, ...string[]]): Promise<void> {
    const task = args.join(' ');
    return runTool(['mix', ...args], {
      context: this.#context,
      env: this.#env,
      called: `mix ${task}`,
      check: [
        `that it works on a fresh clone with MIX_ENV=${this.#env['MIX_ENV'] ?? ''}, and with this Elixir`,
        'that what it needs is in variables of the app: flynn env',
        'that Hex can be reached from the cluster; a mirror is named with: flynn runner env set HEX_MIRROR=URL',
      ],
    });
  }
}
