/** The PHP buildpack: Debian's PHP behind nginx, and what Composer installs. */
import { copyFile, mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { buildEnv } from '../environment.ts';
import { exists } from '../nodejs/toolchain.ts';
import { type RuntimeEnv, atRunTime, debianPaths, slugDir, withRuntime, writeProfileScript } from '../runtime-env.ts';
import { chooseVersion } from '../wanted-version.ts';
import { type ComposerJson, checkPhp, extensionPackages, parseComposerJson } from './composer-json.ts';
import { installPackages } from './packages.ts';

const signs = ['composer.json', 'index.php', 'public/index.php'] as const;
const nothingRequired: ComposerJson = { php: undefined, extensions: [], docroot: undefined };

export const php: Buildpack = {
  name: 'php',
  cacheFolders: ['debian', 'composer', 'vendor'],
  async detect({ layout }) {
    for (const sign of signs) if (await exists(join(layout.appDir, sign))) return 'PHP';
    return undefined;
  },
  compile,
};

function phpEnv(dir: string, version: string, appDir: string): RuntimeEnv {
  const { PATH, LD_LIBRARY_PATH } = debianPaths(dir);
  return {
    paths: { PATH: [join(appDir, 'vendor/bin'), `${dir}/bin`, ...PATH, `${dir}/usr/sbin`], LD_LIBRARY_PATH },
    values: {
      PHPRC: `${dir}/etc/php`,
      PHP_INI_SCAN_DIR: `${dir}/etc/php/conf.d`,
      FLYNN_PHP_DIR: dir,
      FLYNN_PHP_VERSION: version,
    },
  };
}

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out, baseEnv } = context;
  const { appDir } = layout;
  const text = await readTextFile(join(appDir, 'composer.json'));
  const composer = text === undefined ? nothingRequired : parseComposerJson(text);

  out.topic('Installing PHP');
  const debian = new DebianToolchain(context);
  const version = chooseVersion('PHP', undefined, await debian.versions('php', /^php(\d\.\d+)-fpm$/));
  const known = await debian.versions(`php${version}-`, /^php\d\.\d+-([a-z0-9]+)$/);
  const extensions = extensionPackages(version, composer.extensions, known);
  const packages = [`php${version}-cli`, `php${version}-fpm`, 'nginx-light', ...extensions] as const;
  const runtime = await debian.install('php', [packages[0], ...packages.slice(1)]);
  const full = runtime.name.split('-')[1] ?? version;
  checkPhp(composer.php, full);
  out.line(`composer.json asks for ${composer.php ?? 'no version of php'}: PHP ${full}`);
  await configure(runtime.dir, version, atRunTime(runtime.name));

  const runtimeEnv = phpEnv(runtime.dir, version, appDir);
  const env = withRuntime(buildEnv(context), runtimeEnv);
  let isFetched = false;
  if (text !== undefined) {
    out.topic('Installing dependencies with Composer');
    isFetched = await installPackages(context, env, await composerOf(context, debian, version));
  }
  await debian.tidy();
  const root = await docroot(appDir, composer.docroot);
  await mkdir(join(appDir, '.flynn'), { recursive: true });
  // Beside this program, in the tree and in the image.
  await copyFile(join(import.meta.dirname, 'php-web'), join(appDir, '.flynn/php-web'));
  await writeProfileScript(appDir, 'php', phpEnv(atRunTime(runtime.name), version, slugDir));
  return {
    processTypes: { web: `bash .flynn/php-web ${root}` },
    configVars: {},
    runtimes: [runtime],
    exports: Object.fromEntries(
      Object.entries(withRuntime(baseEnv, runtimeEnv)).filter(([name, value]) => baseEnv[name] !== value),
    ),
    isCacheChanged: debian.isChanged || isFetched,
  };
}

/** What Debian's packages do when they are installed: the settings for production, and each extension switched on. */
async function configure(dir: string, version: string, runDir: string): Promise<void> {
  const target = join(dir, 'etc/php/conf.d');
  await mkdir(target, { recursive: true });
  const abi = (await readdir(join(dir, 'usr/lib/php'))).find((name) => /^\d{8}$/.test(name)) ?? '';
  const production = await readFile(join(dir, 'usr/lib/php', version, 'php.ini-production'), 'utf8');
  // Errors go where the platform reads them.
  const own = `\nextension_dir = "${runDir}/usr/lib/php/${abi}"\nlog_errors = On\nerror_log = /proc/self/fd/2\nexpose_php = Off\n`;
  await writeFile(join(dir, 'etc/php/php.ini'), production + own);
  const share = join(dir, 'usr/share');
  for (const entry of await readdir(share, { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith('.ini') || !/^php\d\.\d+-/.test(entry.parentPath.slice(share.length + 1))) continue;
    const text = await readFile(join(entry.parentPath, entry.name), 'utf8');
    const priority = /^;\s*priority=(\d+)/m.exec(text)?.[1] ?? '20';
    await writeFile(join(target, `${priority}-${entry.name}`), text);
  }
  await mkdir(join(dir, 'bin'), { recursive: true });
  await writeFile(join(dir, 'bin/php'), `#!/bin/sh\nexec "\${0%/bin/php}/usr/bin/php${version}" "$@"\n`, {
    mode: 0o755,
  });
}

/** Composer with its own libraries where they are: it looks for them where Debian installs them. */
async function composerOf(context: BuildContext, debian: DebianToolchain, version: string): Promise<string> {
  const { layout, baseEnv, signal } = context;
  const { dir } = await debian.install('composer', ['composer', `php${version}-cli`]);
  const script = 'grep -rlZ /usr/share/php "$1" --include=*.php | xargs -0r sed -i "s,/usr/share/php,$1,g"';
  const command = ['bash', '-c', script, 'bash', join(dir, 'usr/share/php')] as const;
  await runForOutput(command, { cwd: layout.appDir, env: baseEnv, signal });
  return join(dir, 'usr/bin/composer');
}

async function docroot(appDir: string, named: string | undefined): Promise<string> {
  const isFolder = (path: string): Promise<boolean> =>
    stat(join(appDir, path)).then(
      (status) => status.isDirectory(),
      () => false,
    );
  if (named === undefined) return (await isFolder('public')) ? 'public' : '.';
  const root = posix.normalize(named).replace(/\/$/, '');
  const isInside = !posix.isAbsolute(root) && root !== '..' && !root.startsWith('../') && /^[\w./-]+$/.test(root);
  if (isInside && (await isFolder(root))) return root;
  throw new FlynnError('invalid', `composer.json names the docroot "${named}", which is no folder of the repository`);
}
