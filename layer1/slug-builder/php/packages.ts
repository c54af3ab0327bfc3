/** The packages of a composer.lock in vendor: installed anew in each build, from what the builds before downloaded. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { exists } from '../nodejs/toolchain.ts';
import { runTool } from '../tool-run.ts';
import { whileFilling } from '../tool-store.ts';

/**
 * Answers whether the cache changed. vendor is not kept: packages may be patched with files of the source, or be copies of its
 * folders, and the lockfile tells of neither. What Composer no longer needs it forgets by itself.
 */
export async function installPackages(
  context: BuildContext,
  env: Readonly<Record<string, string>>,
  composer: string,
): Promise<boolean> {
  const { layout, out } = context;
  if (!(await exists(join(layout.appDir, 'composer.lock')))) {
    out.warn(
      'There is no composer.lock: each build may get other versions of packages.\nRun "composer install" and commit the lockfile it writes.',
    );
  }
  const downloads = join(layout.cacheDir, 'composer');
  const composerEnv = {
    ...env,
    COMPOSER_HOME: join(layout.scratchDir, 'composer'),
    COMPOSER_CACHE_DIR: downloads,
  };
  const flags = ['--no-dev', '--prefer-dist', '--optimize-autoloader', '--no-interaction', '--no-progress'];
  const isFilled = await whileFilling(downloads, context, () =>
    runTool(['php', composer, 'install', ...flags], {
      context,
      env: composerEnv,
      called: 'composer install',
      check: [
        'that composer.json and composer.lock agree: composer update --lock',
        'that the package repository can be reached from the cluster: a mirror is named in composer.json as "repositories"',
      ],
    }),
  );
  // A builder of before kept vendor here.
  const formerDir = join(layout.cacheDir, 'vendor');
  const hadVendor = await exists(formerDir);
  await rm(formerDir, { recursive: true, force: true });
  return isFilled || hadVendor;
}
