/** The host's WireGuard key pair: the private half is a file of its own, which no other program than `wg` reads. */
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';

export const tunnelKeyFile = (stateDir: string): string => join(stateDir, 'tunnel.key');

/** Both halves, 32 bytes each in base64url. */
const halvesSchema = z.object({ d: z.string(), x: z.string() });

/** What stands in front of 32 bytes to make them a private key of X25519 in PKCS #8. */
const header = Buffer.from('302e020100300506032b656e04220420', 'hex');

/**
 * Answers the public half, in base64 as WireGuard writes it, and makes the pair where there is none. `invalid` if the file holds
 * something else.
 */
export async function ensureTunnelKey(stateDir: string): Promise<string> {
  const file = tunnelKeyFile(stateDir);
  const known = (await readTextFile(file))?.trim() ?? '';
  if (known !== '') return publicHalf(known, file);
  const { d, x } = halvesSchema.parse(generateKeyPairSync('x25519').privateKey.export({ format: 'jwk' }));
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  await writeFileAtomic(file, `${inBase64(d)}\n`, { mode: 0o600 });
  return inBase64(x);
}

function publicHalf(key: string, file: string): string {
  const bytes = Buffer.from(key, 'base64');
  if (bytes.length !== 32 || bytes.toString('base64') !== key) {
    throw new FlynnError(
      'invalid',
      `${file} is not a WireGuard key: remove it, and the agent makes another at its next start`,
    );
  }
  const pair = createPrivateKey({ key: Buffer.concat([header, bytes]), format: 'der', type: 'pkcs8' });
  return inBase64(halvesSchema.parse(pair.export({ format: 'jwk' })).x);
}

function inBase64(base64url: string): string {
  return Buffer.from(base64url, 'base64url').toString('base64');
}
