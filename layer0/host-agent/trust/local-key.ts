/**
 * By which the agent knows root on its machine, whatever has become of certificates. Parts of the platform on the host's own
 * network reach 127.0.0.1 as well, and have the cluster key.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { newSecret } from '@flynn/kit/secrets';

const file = (stateDir: string): string => join(stateDir, 'local.key');

/** Undefined where no agent has made one yet. */
export async function readLocalKey(stateDir: string): Promise<string | undefined> {
  const key = await readTextFile(file(stateDir));
  return key === '' ? undefined : key;
}

export async function ensureLocalKey(stateDir: string): Promise<string> {
  const known = await readLocalKey(stateDir);
  if (known !== undefined) return known;
  const key = newSecret();
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  await writeFileAtomic(file(stateDir), key, { mode: 0o600 });
  return key;
}
