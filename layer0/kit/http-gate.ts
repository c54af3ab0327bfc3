/** Who is asking, and may they? Asked once per request, before its body is read. */
import type { IncomingHttpHeaders } from 'node:http';
import { FlynnError } from './errors.ts';
import { isOfRole } from './identity.ts';
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
  /** Over a mutual connection: whose certificate the client has shown, `flynn:app/controller`. */
  peer?: string | undefined;
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

export type RoleRules = Readonly<{
  /** What those of the cluster may do who have shown who they are. */
  admits: (peer: string, route: Route) => boolean;
  /** What a key alone never opens, not from this machine either. */
  needsPeer?: (route: Route) => boolean;
  /** Whether all who need this server can show it: then nobody else is let in, but for figures and from this machine. */
  isClosed: () => boolean;
  /** What opens from this machine in the key's place, where others than root may have that and be here. */
  localKey?: string | undefined;
}>;

/** Of a part of the platform, which knows from its host's agent whether others still come with their key alone. */
export type Surroundings = Readonly<{ isEverybodyKnown: boolean }>;

/** For these roles alone. A key without a certificate is enough as long as anybody of the platform has no more, or none is told. */
export function partRules(roles: readonly string[], surroundings: Surroundings | undefined): RoleRules {
  return {
    admits: (peer) => roles.some((role) => isOfRole(peer, role)),
    isClosed: () => surroundings?.isEverybodyKnown === true,
  };
}

/** A key as ever, and beside it a certificate with the right role. */
export function roleGate(key: string, { admits, needsPeer, isClosed, localKey = key }: RoleRules): Gate {
  const byKey = keyGate([key]);
  const byLocalKey = keyGate([localKey]);
  const byEither = keyGate([key, localKey]);
  return async (request) => {
    const { peer, route, remoteAddress } = request;
    if (peer !== undefined && !admits(peer, route)) {
      throw new FlynnError('denied', `${route.method} ${route.path} is not for ${peer}`);
    }
    if (peer === undefined && needsPeer?.(route) === true) throw notAPart();
    const closed = isClosed();
    if (closed) checkIsPart(request);
    if (peer !== undefined || !isLoopback(remoteAddress)) return byKey(request);
    return closed && !isForMonitoring(route.path) ? byLocalKey(request) : byEither(request);
  };
}

/** In front of a server's own gate: as roleGate, for a part that lets in whoever has a certificate and what its gate wants. */
export function partGate(gate: Gate, surroundings: Surroundings | undefined): Gate {
  return async (request) => {
    if (surroundings?.isEverybodyKnown === true) checkIsPart(request);
    return gate(request);
  };
}

/** Throws `unauthenticated` at whoever shows no certificate, but for figures and on this machine. */
function checkIsPart({ peer, route, remoteAddress }: GateRequest): void {
  if (peer !== undefined || isForMonitoring(route.path) || isLoopback(remoteAddress)) return;
  throw notAPart();
}

function notAPart(): FlynnError {
  return new FlynnError(
    'unauthenticated',
    'this is for parts of the cluster only: over TLS, with a certificate of its authority',
  );
}

function isLoopback(address: string): boolean {
  return /^(::ffff:)?127\./.test(address) || address === '::1';
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
