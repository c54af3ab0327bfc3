/** How a token is written: `flynn_ID_SECRET`. The id is public, the secret is kept as a hash. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { newSecret } from '@flynn/kit/secrets';

export function newTokenText(id: string): { text: string; hash: string } {
  const secret = newSecret();
  return { text: `flynn_${id}_${secret}`, hash: hashOf(secret) };
}

export function parseToken(text: string): { id: string; secret: string } | undefined {
  const [, id, secret] = /^flynn_([a-z0-9]{12})_([A-Za-z0-9_-]{43})$/.exec(text) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** The public part of what is a token or the beginning of one. */
export function idInToken(text: string): string | undefined {
  return /^flynn_([a-z0-9]{12})_/.exec(text)?.[1];
}

/**
 * People copy what they have: an id, or all of a token, by which it is known which one it is. Undefined for what is neither: that
 * may be a secret of another kind, and is to be told nobody.
 */
export function tokenIdIn(text: string): string | undefined {
  return idInToken(text) ?? (/^[a-z0-9]{12}$/.test(text) ? text : undefined);
}

/** In constant time. */
export function hasHash(secret: string, hash: string): boolean {
  const own = Buffer.from(hashOf(secret), 'hex');
  const kept = Buffer.from(hash, 'hex');
  return own.length === kept.length && timingSafeEqual(own, kept);
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
