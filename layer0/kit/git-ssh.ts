/**
 * How git reaches repositories that are not public, with an app's own SSH key: SSH_CLIENT_KEY is a private key,
 * SSH_CLIENT_HOSTS are lines of a known_hosts file.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from './errors.ts';

/** The address that ssh goes to whatever the name says, and the name under which its key is known: `HOST` or `[HOST]:PORT`. */
export type SshAt = { address: string; known: string };

/**
 * Variables for git; nothing without a key, but for `at`. What it needs is written into `dir`, which is to be nobody else's.
 */
export async function gitSshEnv(
  dir: string,
  appEnv: Readonly<Record<string, string>>,
  at?: SshAt,
): Promise<Record<string, string>> {
  const key = appEnv['SSH_CLIENT_KEY'];
  const place: Record<string, string> = at === undefined ? {} : { HostName: at.address, HostKeyAlias: at.known };
  if (key === undefined || key.trim() === '') {
    return at === undefined ? {} : { GIT_SSH_COMMAND: `ssh -F /dev/null ${wordsOf(place)}` };
  }
  if (!/^-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n/.test(key.trimStart())) {
    throw new FlynnError(
      'invalid',
      'SSH_CLIENT_KEY is not a private key. Set it from a file without a passphrase: flynn env set SSH_CLIENT_KEY="$(cat FILE)"',
    );
  }
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
    ...place,
  };
  return { GIT_SSH_COMMAND: `ssh -F /dev/null -i ${join(dir, 'key')} ${wordsOf(options)}` };
}

/** For a shell, which git calls. */
function wordsOf(options: Readonly<Record<string, string>>): string {
  return Object.entries(options)
    .map(([name, value]) => `-o '${name}=${value.replaceAll("'", String.raw`'\''`)}'`)
    .join(' ');
}
