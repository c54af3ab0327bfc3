/** Who is asking, and may they? Asked once per request, before its body is read. */
import type { IncomingHttpHeaders } from 'node:http';
import { FlynnError } from './errors.ts';
import { isForMonitoring, metricsToken } from './metrics-token.ts';
import type { Route } from './routes.ts';
import { isSameSecret } from './secrets.ts';

/** Who was let in. What else a gate knows of them is its server's business: handlers ask it about the caller. */
export interface Caller {
  /** For logs. */
  readonly name: string;
  /** Aborts once they may no longer be here: ends what is still open for them. */
  readonly signal?: AbortSignal;
}

export type GateRequest = Readonly<{
  route: Route;
  params: Readonly<Record<string, string>>;
  headers: IncomingHttpHeaders;
  remoteAddress: string;
  requestId: string;
  signal: AbortSignal;
}>;

/**
 * Answers who it is, or throws: `unauthenticated`, `denied`, `exhausted`, or `not_found` for what they may not know of.
 * `params` replaces the request's, so that what was judged is what is acted on. Not asked about open routes.
 */
export type Gate = (
  request: GateRequest,
) => Promise<{ caller: Caller; params?: Readonly<Record<string, string>> | undefined }>;

const keyHolder: Caller = { name: 'a holder of the key' };

/**
 * Lets in whoever has one of the keys, to everything, and who has a token made of one to figures alone. Every key is
 * compared, whichever matches.
 */
export function keyGate(keys: readonly string[]): Gate {
  return async ({ headers, route }) => {
    const given = credentialOf(headers);
    const opening = isForMonitoring(route.path) ? [...keys, ...keys.map(metricsToken)] : keys;
    if (opening.filter((key) => isSameSecret(key, given)).length === 0) throw unknownKey();
    return { caller: keyHolder };
  };
}

export function unknownKey(): FlynnError {
  return new FlynnError('unauthenticated', 'the key that was sent is not a valid one');
}

/** A bearer token or the password of basic authentication; `unauthenticated` when there is neither. */
export function credentialOf(headers: IncomingHttpHeaders): string {
  const [, scheme, value] = /^(bearer|basic) +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
  if (scheme === undefined || value === undefined) throw noKey();
  if (scheme.toLowerCase() === 'bearer') return value;
  const pair = Buffer.from(value, 'base64').toString();
  const colon = pair.indexOf(':');
  if (colon < 0) throw noKey();
  return pair.slice(colon + 1);
}

function noKey(): FlynnError {
  return new FlynnError('unauthenticated', 'this needs a key: send it as "Authorization: Bearer KEY"');
}
