/** What a backup is encrypted with: in a file or the environment, never on the command line, which others see. */
import { checkPassphrase } from '@flynn/controller/backup/encryption';
import type { Context } from './context.ts';
import { readNamed } from './input-file.ts';

export const passphraseOption = [
  '--passphrase-file <file>',
  'what it is encrypted with, - for standard input (else: $FLYNN_BACKUP_PASSPHRASE)',
] as const;

/** Undefined where nothing is said of one. `invalid` for one that is too short. */
export async function passphraseOf({ io }: Context, file: string | undefined): Promise<string | undefined> {
  const text = file === undefined ? io.env['FLYNN_BACKUP_PASSPHRASE'] : await readNamed(io, file);
  return text === undefined ? undefined : checkPassphrase(text);
}
