/**
 * Connections to the platform's own parts: both sides show certificates, and nothing is said to one that is not of the app
 * that discovery names. People's tokens cross the cluster in there. Apps have none: to them all stays as it is.
 */
import { type SecureContext, type TLSSocket, connect, createSecureContext } from 'node:tls';
import type { MutualClient } from '@flynn/kit/http-client';
import { type Identity, checkRole } from '@flynn/kit/identity';

/** Besides the dial: the kernel takes connections for a process that is busy, and a handshake waits for it. */
export const handshakeMs = 10_000;

/** Reading certificates costs more than a handshake: once for each that is shown. */
const contexts = new WeakMap<Identity, SecureContext>();

function contextOf(identity: Identity): SecureContext {
  const known = contexts.get(identity);
  if (known !== undefined) return known;
  const { trusted, certificate, privateKey } = identity;
  const context = createSecureContext({ ca: trusted, cert: certificate, key: privateKey, minVersion: 'TLSv1.3' });
  contexts.set(identity, context);
  return context;
}

/** It may be written to from `secureConnect` on, when the other side is known. */
export function connectMutually(at: { host: string; port: number }, { identity, server }: MutualClient): TLSSocket {
  // Known to Node, and not to its types: half-close is the business of whoever talks over it.
  const halfOpen = { allowHalfOpen: true };
  const socket = connect({
    ...at,
    ...halfOpen,
    secureContext: contextOf(identity.current),
    checkServerIdentity: checkRole(server),
  });
  socket.once('connect', () => socket.setNoDelay(true).setKeepAlive(true, 15_000));
  return socket;
}
