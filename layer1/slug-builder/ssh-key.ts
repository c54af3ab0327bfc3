/** The app's own SSH key, for repositories that are not public: submodules, buildpacks and packages that a tool fetches by git. */
import { join } from 'node:path';
import { gitSshEnv } from '@flynn/kit/git-ssh';
import type { BuildContext } from './buildpack.ts';

/** For `baseEnv`: how git reaches such repositories. Nothing without a key. */
export async function sshEnv({
  layout,
  appEnv,
}: Pick<BuildContext, 'layout' | 'appEnv'>): Promise<Record<string, string>> {
  return gitSshEnv(join(layout.scratchDir, 'ssh'), appEnv);
}
