/** By when does an operation have to run? Pure. */
import { FlynnError } from '@flynn/kit/errors';

export const longestWaitMs = 365 * 86_400_000;

type Asked = { expiresAt?: string | null | undefined; expiresInMs?: number | undefined };

/** In ISO 8601; undefined: it waits as long as it takes. Throws `invalid` where both are said. */
export function expiryOf({ expiresAt, expiresInMs }: Asked, nowMs: number): string | undefined {
  if (expiresInMs === undefined) return expiresAt ?? undefined;
  if (expiresAt === undefined) return new Date(nowMs + expiresInMs).toISOString();
  throw new FlynnError('invalid', 'say either expiresAt or expiresInMs, not both');
}
