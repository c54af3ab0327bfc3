/** Assets that a Rakefile makes. */
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { exists } from '../nodejs/toolchain.ts';
import { runTool } from '../tool-run.ts';
import { hasGem } from './gemfile.ts';

/** With one of these an app without its assets is broken. */
const makers = ['railties', 'sprockets', 'propshaft'];
const check = [
  'that it works on a fresh clone with RAILS_ENV=production',
  'that variables it needs are set: flynn env',
];

export async function precompileAssets(
  context: BuildContext,
  env: Readonly<Record<string, string>>,
  lock: string,
): Promise<void> {
  const { layout, out } = context;
  if (!hasGem(lock, 'rake') || !(await exists(join(layout.appDir, 'Rakefile')))) return;
  const withDummy = { SECRET_KEY_BASE_DUMMY: '1', ...env };
  const tasks = await tasksOf(
    context,
    withDummy,
    makers.some((name) => hasGem(lock, name)),
  );
  if (!/^rake assets:precompile$/m.test(tasks)) return;
  out.topic('Precompiling assets');
  await runTool(['bundle', 'exec', 'rake', 'assets:precompile'], {
    context,
    env: withDummy,
    called: 'rake assets:precompile',
    check,
  });
}

/** Many a Rakefile is for development alone, and needs gems that are left out here. */
async function tasksOf(
  { layout, out, signal }: BuildContext,
  env: Readonly<Record<string, string>>,
  isNeeded: boolean,
): Promise<string> {
  try {
    return await runForOutput(['bundle', 'exec', 'rake', '-P', '--trace'], { cwd: layout.appDir, env, signal });
  } catch (error) {
    if (signal.aborted || !(error instanceof FlynnError) || error.code !== 'invalid') throw error;
    if (isNeeded) {
      const checks = check.map((each) => `- ${each}`).join('\n');
      throw new FlynnError('invalid', `The Rakefile could not be loaded: ${error.message}\nCheck\n${checks}`, {
        cause: error,
      });
    }
    out.warn(`The Rakefile could not be loaded, so no assets are made by it: ${error.message}`);
    return '';
  }
}
