import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** Compares in a time that depends on neither the contents nor the lengths. */
export function isSameSecret(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** A random secret in base64url: safe in headers, URLs, file names and shell words. */
export function newSecret(bytes = 32): string {
  return randomBytes(bytes).toString('base64url');
}
