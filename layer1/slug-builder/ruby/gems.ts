/** The gems of a Gemfile.lock in vendor/bundle. Those of the build before stay, and only what changed is installed. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { KeptFolder, keyOf } from '../kept-folder.ts';
import { runTool } from '../tool-run.ts';
import { heldIn, nothingHeld } from '../tool-store.ts';

const builderVersion = '2';
/** As RubyGems calls this machine. */
const platform = `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux`;

type Installation = {
  context: BuildContext;
  env: Readonly<Record<string, string>>;
  lock: string | undefined;
  runtime: string;
};

/** Answers whether something else is kept now. */
export async function installGems({ context, env, lock, runtime }: Installation): Promise<boolean> {
  const { layout, out, signal } = context;
  const { appDir } = layout;
  const options = { cwd: appDir, env, signal };
  if (lock === undefined) {
    out.warn(
      'There is no Gemfile.lock: each build may get other versions of gems.\nRun "bundle install" and commit the lockfile it writes.',
    );
  }
  const settings = {
    path: 'vendor/bundle',
    without: env['BUNDLE_WITHOUT'] ?? 'development:test',
    ...(lock === undefined ? {} : { deployment: 'true' }),
  };
  for (const [name, value] of Object.entries(settings)) {
    await runForOutput(['bundle', 'config', 'set', '--local', name, value], options);
  }
  const bundle = join(appDir, 'vendor/bundle');
  const kept = new KeptFolder(context, 'gems', bundle);
  const key = lock === undefined ? undefined : keyOf(builderVersion, runtime, settings.without, sourceOf(lock));
  const isRestored = key !== undefined && (await kept.restore(key));
  const before = isRestored ? await heldIn(bundle) : nothingHeld;
  if (isRestored) out.line('Taking gems that were installed before from the cache');
  // Quick when all is there; and what stands in the repository itself (path:, git:) is looked at again.
  await runTool(['bundle', 'install', '--jobs', '4', '--retry', '2'], {
    context,
    env,
    called: 'bundle install',
    check: [
      `that Gemfile and Gemfile.lock agree, and that the lockfile has this platform: bundle lock --add-platform ${platform}`,
      'that the gem server can be reached from the cluster; a mirror is named with: flynn runner env set BUNDLE_MIRROR__ALL=URL',
    ],
  });
  // What the lockfile names no more is in no slug, as without the cache.
  if (isRestored) await runForOutput(['bundle', 'clean'], options);
  await rm(join(env['GEM_HOME'] ?? bundle, 'cache'), { recursive: true, force: true });
  if (key === undefined) return false;
  const isSame = isRestored && isDeepStrictEqual(before.files, (await heldIn(bundle)).files);
  if (!isSame) await kept.keep(key);
  return !isSame;
}

/**
 * Where the gems of a lockfile come from. Bundler takes an installed gem of the right name and version wherever it was from: with
 * several sources only gems of the same lockfile are.
 */
function sourceOf(lock: string): string {
  const sources = lock.split(/^(?=[A-Z])/m).filter((section) => section.startsWith('GEM'));
  const remotes = sources.flatMap((section) =>
    [...section.matchAll(/^ {2}remote: (.+)$/gm)].map(([, url = '']) => url.trim()),
  );
  return remotes.length > 1 ? lock : (remotes[0] ?? '');
}
