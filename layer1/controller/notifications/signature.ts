/**
 * How a receiver knows that a message is this cluster's, and of now: as Standard Webhooks 1.0.0 has it
 * (https://www.standardwebhooks.com): HMAC-SHA256 over `ID.SECONDS.BODY`, with a secret that is base64 after `whsec_`.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { z } from 'zod';

const prefix = 'whsec_';
/** The specification asks for 24 bytes at least and 64 at most. */
const secretBytes = 32;

export const signingSecretSchema = z
  .string()
  .refine(isSecret, `a secret is ${prefix} and the base64 of 24 to 64 bytes, as "openssl rand -base64 32" makes them`);

function isSecret(text: string): boolean {
  const encoded = text.slice(prefix.length);
  const bytes = Buffer.from(encoded, 'base64');
  const isWhole = bytes.toString('base64').replace(/=+$/, '') === encoded.replace(/=+$/, '');
  return text.startsWith(prefix) && isWhole && bytes.length >= 24 && bytes.length <= 64;
}

export function newSigningSecret(): string {
  return `${prefix}${randomBytes(secretBytes).toString('base64')}`;
}

/** What is signed with: not the text of the secret but what that is of. */
export function signingKeyOf(secret: string): Buffer {
  return Buffer.from(secret.slice(prefix.length), 'base64');
}

/** Of one attempt: a receiver refuses what is too old, so each has its own time. */
export function signatureHeaders(
  secret: string,
  { id, body, now }: { id: string; body: string; now: number },
): Record<string, string> {
  const seconds = Math.floor(now / 1_000);
  const signature = createHmac('sha256', signingKeyOf(secret)).update(`${id}.${seconds}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': `v1,${signature}` };
}
