/** Checks the key of the server itself, so that a wrong one is told at the start and not by every client. */
import { FlynnError } from '@flynn/kit/errors';
import ssh2 from 'ssh2';

/** Line ends may have become `\n` on their way through a file of variables. */
export function readHostKey(text: string): string {
  const key = `${text.replaceAll(String.raw`\n`, '\n').trim()}\n`;
  const parsed = ssh2.utils.parseKey(key);
  if (parsed instanceof Error || !parsed.isPrivateKey()) {
    const why = parsed instanceof Error ? parsed.message : 'it is a public key';
    throw new FlynnError(
      'invalid',
      `FLYNN_SSH_HOST_KEY is not a usable private key (${why}): make one with ssh-keygen -t ed25519`,
    );
  }
  return key;
}
