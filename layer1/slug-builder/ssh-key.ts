/**
 * The app's own SSH key, for repositories that are not public: submodules, buildpacks and packages that a tool fetches by git.
 * SSH_CLIENT_KEY is a private key; SSH_CLIENT_HOSTS are lines of a known_hosts file.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import type { BuildContext } from './buildpack.ts';

/** For `baseEnv`: how git reaches such repositories. Nothing without a key. */
export async function sshEnv({
  layout,
  appEnv,
}: Pick<BuildContext, 'layout' | 'appEnv'>): Promise<Record<string, string>> {
  const key = appEnv['SSH_CLIENT_KEY'];
  if (key === undefined || key.trim() === '') return {};
  if (!/^-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n/.test(key.trimStart())) {
    throw new FlynnError(
      'invalid',
      'SSH_CLIENT_KEY is not a private key. Set it from a file without a passphrase: flynn env set SSH_CLIENT_KEY="$(cat FILE)"',
    );
  }
  const dir = join(layout.scratchDir, 'ssh');
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await writeFile(join(dir, 'key'), `${key.trim().replaceAll('\r\n', '\n')}\n`, { mode: 0o600 });
  const hosts = appEnv['SSH_CLIENT_HOSTS']?.trim() ?? '';
  await writeFile(join(dir, 'known_hosts'), hosts === '' ? '' : `${hosts}\n`, { mode: 0o600 });
  const options = {
    BatchMode: 'yes',
    IdentitiesOnly: 'yes',
    // Who names hosts wants no other; who names none takes them as they are.
    StrictHostKeyChecking: hosts === '' ? 'accept-new' : 'yes',
    UserKnownHostsFile: join(dir, 'known_hosts'),
    ConnectTimeout: '30',
  };
  const words = Object.entries(options).map(([name, value]) => `-o ${name}=${value}`);
  return { GIT_SSH_COMMAND: `ssh -F /dev/null -i ${join(dir, 'key')} ${words.join(' ')}` };
}
