/** Which certificates does a TLS server show? Nothing of them is checked: it is the caller who knows whom to expect. */
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import { abortError } from './clock.ts';
import { FlynnError } from './errors.ts';
import { lookup } from './lookup.ts';
import { withDeadline } from './retry.ts';

export type Shown = Readonly<{
  /** The server's own, then what signed it, each by the next. */
  chain: readonly X509Certificate[];
  /** It is good for the name that was asked for, of an authority that this machine trusts. */
  isTrusted: boolean;
  /** This machine's address on the way there. */
  ownAddress: string;
}>;

const reachMs = 5_000;

/**
 * `unavailable` if it hangs up, `timeout` after five seconds; otherwise the socket's own errors. `name`: what the server is asked
 * for, default its host's name.
 */
export async function shownChain(
  server: { host: string; port: number; name?: string },
  outer: AbortSignal,
): Promise<Shown> {
  const { host, port, name: asked = host } = server;
  const signal = withDeadline(reachMs, outer);
  if (signal.aborted) throw abortError(signal);
  const name = isIP(asked) === 0 ? { servername: asked } : {};
  const socket = connect({ host, port, ...name, lookup, rejectUnauthorized: false });
  const stop = (): void => void socket.destroy(new FlynnError('timeout', `no answer within ${reachMs} ms`));
  signal.addEventListener('abort', stop, { once: true });
  try {
    const connected = Promise.withResolvers<void>();
    socket.once('secureConnect', () => connected.resolve());
    socket.once('error', (error) => connected.reject(error));
    socket.once('close', () => connected.reject(new FlynnError('unavailable', 'it hung up')));
    await connected.promise;
    const chain: X509Certificate[] = [];
    let next = socket.getPeerX509Certificate();
    while (next !== undefined && next !== chain.at(-1)) {
      chain.push(next);
      next = next.issuerCertificate;
    }
    return { chain, isTrusted: socket.authorized, ownAddress: socket.localAddress ?? '' };
  } finally {
    signal.removeEventListener('abort', stop);
    socket.destroy();
  }
}
