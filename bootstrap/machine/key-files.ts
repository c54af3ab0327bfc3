/** An SSH key in two files: FILE, and FILE.pub, which is there last. */
import { existsSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { hasCode } from '@flynn/kit/errors';
import { writeFileAtomic } from '@flynn/kit/files';
import { runProgram } from './program.ts';

const keygenMs = 20_000;

/** Made where there is none; what was broken off before its public half was there gets that. Answers the public half's file. */
export async function ensureKeyFiles(file: string): Promise<string> {
  const publicFile = `${file}.pub`;
  if (existsSync(publicFile) && existsSync(file)) return publicFile;
  if (!(await isMended(file))) await makeKey(file);
  return publicFile;
}

/** On the disk, as ssh-keygen does not see to: after a power cut an empty one would be there under its name. */
async function makeKey(file: string): Promise<void> {
  const incoming = `${file}.new`;
  const made = [incoming, `${incoming}.pub`];
  for (const one of made) await rm(one, { force: true });
  await runProgram('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'flynn', '-f', incoming], {
    timeoutMs: keygenMs,
  });
  await writeFileAtomic(file, await readFile(incoming), { mode: 0o600 });
  await writeFileAtomic(`${file}.pub`, await readFile(`${incoming}.pub`), { mode: 0o644 });
  for (const one of made) await rm(one);
}

/** Whether what is there is a key. */
async function isMended(file: string): Promise<boolean> {
  if (!existsSync(file)) return false;
  try {
    await writePublicKey(file);
    return true;
  } catch (error) {
    if (hasCode(error, 'internal')) return false;
    throw error;
  }
}

export async function writePublicKey(file: string): Promise<void> {
  const publicKey = await runProgram('ssh-keygen', ['-y', '-P', '', '-f', file], { timeoutMs: keygenMs });
  await writeFileAtomic(`${file}.pub`, `${publicKey.trim()}\n`, { mode: 0o644 });
}
