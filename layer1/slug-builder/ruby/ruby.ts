/** The Ruby buildpack: Debian's Ruby and Bundler, and what a Gemfile names in vendor/bundle. */
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { exists } from '../nodejs/toolchain.ts';
import {
  type RuntimeEnv,
  atRunTime,
  debianPaths,
  debianTriple,
  slugDir,
  withRuntime,
  writeProfileScript,
} from '../runtime-env.ts';
import { chooseVersion, wishIn } from '../wanted-version.ts';
import { precompileAssets } from './assets.ts';
import { checkGemfileRuby, rubyOfGemfile, rubyOfLock } from './gemfile.ts';
import { installGems } from './gems.ts';

/** How the app runs, unless its variables say otherwise. */
const configVars = {
  RACK_ENV: 'production',
  RAILS_ENV: 'production',
  RAILS_LOG_TO_STDOUT: 'enabled',
  RAILS_SERVE_STATIC_FILES: 'enabled',
};

export const ruby: Buildpack = {
  name: 'ruby',
  cacheFolders: ['debian', 'gems'],
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'Gemfile'))) ? 'Ruby' : undefined),
  compile,
};

/** Ruby knows its libraries by where Debian puts them. */
function rubyEnv(dir: string, version: string, appDir: string): RuntimeEnv {
  const { PATH, LD_LIBRARY_PATH } = debianPaths(dir);
  const abi = `${version}.0`;
  const lib = `${dir}/usr/lib`;
  const share = `${dir}/usr/share/rubygems-integration`;
  return {
    paths: {
      PATH: [join(appDir, 'bin'), join(appDir, 'vendor/bundle/ruby', abi, 'bin'), ...PATH],
      LD_LIBRARY_PATH,
      RUBYLIB: [
        `${lib}/ruby/vendor_ruby`,
        `${lib}/${debianTriple}/ruby/vendor_ruby/${abi}`,
        `${lib}/ruby/${abi}`,
        `${lib}/${debianTriple}/ruby/${abi}`,
      ],
      GEM_PATH: [
        `${lib}/ruby/gems/${abi}`,
        `${share}/all`,
        `${share}/${abi}`,
        `${lib}/${debianTriple}/rubygems-integration/${abi}`,
      ],
    },
    values: { GEM_HOME: join(appDir, 'vendor/bundle/ruby', abi), MALLOC_ARENA_MAX: '2' },
  };
}

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out, baseEnv } = context;
  const { appDir } = layout;
  const gemfile = (await readTextFile(join(appDir, 'Gemfile'))) ?? '';
  const lock = await readTextFile(join(appDir, 'Gemfile.lock'));

  out.topic('Installing Ruby');
  const debian = new DebianToolchain(context);
  const wish = (await wishIn(appDir, '.ruby-version', 'ruby')) ?? rubyOfLock(lock ?? '');
  const version = chooseVersion('Ruby', wish, await debian.versions('ruby', /^ruby(\d\.\d+)$/));
  const runtime = await debian.install('ruby', [`ruby${version}`, 'bundler', `ruby${version}-dev`]);
  await debian.tidy();
  const full = runtime.name.split('-')[1] ?? version;
  const required = rubyOfGemfile(gemfile);
  if (required !== undefined) checkGemfileRuby(required, full);
  out.line(`${wish === undefined ? 'No .ruby-version' : `${wish.file} says ${wish.version}`}: Ruby ${full}`);

  const runtimeEnv = rubyEnv(runtime.dir, version, appDir);
  const env = { ...configVars, ...withRuntime(buildEnv(context), runtimeEnv) };
  out.topic('Installing gems with Bundler');
  const isInstalled = await installGems({ context, env, lock, runtime: runtime.name });
  if (lock !== undefined) await precompileAssets(context, env, lock);
  await writeProfileScript(appDir, 'ruby', rubyEnv(atRunTime(runtime.name), version, slugDir));
  return {
    processTypes: await defaultTypes(appDir),
    configVars,
    runtimes: [runtime],
    exports: Object.fromEntries(
      Object.entries(withRuntime(baseEnv, runtimeEnv)).filter(([name, value]) => baseEnv[name] !== value),
    ),
    isCacheChanged: debian.isChanged || isInstalled,
  };
}

async function defaultTypes(appDir: string): Promise<Record<string, string>> {
  const isThere = (path: string): Promise<boolean> => exists(join(appDir, path));
  if ((await isThere('bin/rails')) && (await isThere('config/application.rb'))) {
    return { web: 'bin/rails server -b 0.0.0.0 -p ${PORT:-8080} -e $RAILS_ENV' };
  }
  if (await isThere('config.ru')) return { web: 'bundle exec rackup config.ru -o 0.0.0.0 -p ${PORT:-8080}' };
  return {};
}
