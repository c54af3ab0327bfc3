/** Opens a server's port, and stays with it: what goes wrong while it accepts connections ends no process. */
import type { Server } from 'node:net';
import { FlynnError, asFlynnError, messageOf } from './errors.ts';
import type { Logger } from './log.ts';

/** Where accepting fails it fails again at once, as long as what it lacks (file descriptors, memory) is not there. */
const tellAgainMs = 10_000;

/**
 * So many connections may wait to be accepted; the kernel cuts it to `net.core.somaxconn`. Node's 511 were too few for all
 * clients of a host coming at once: what does not fit is dropped, and comes again a second later if at all.
 */
export const backlog = 4_096;

export type ListeningOptions = Readonly<{
  /** For errors and logs: `controller`. */
  name: string;
  /** 0 takes a free port; `path` is of a Unix socket. */
  at: Readonly<{ host: string; port: number; reusePort?: boolean }> | Readonly<{ path: string }>;
  log: Pick<Logger, 'error'>;
}>;

/**
 * Resolves with the port, 0 for a Unix socket. Throws `conflict` if another program has it, `denied` if it may not be taken,
 * `unavailable` if the machine has no such address.
 * From then on an error of the server, as of a connection that cannot be accepted, is logged, and it goes on listening.
 */
export async function listenOn(server: Server, { name, at, log }: ListeningOptions): Promise<number> {
  const where = 'path' in at ? at.path : `port ${at.port} of ${at.host}`;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const failed = (error: NodeJS.ErrnoException) => reject(refusal(error, name, where));
  server.once('error', failed);
  server.listen({ ...at, backlog }, resolve);
  await promise;
  server.off('error', failed);
  let toldMs = -Infinity;
  server.on('error', (error) => {
    if (performance.now() - toldMs < tellAgainMs) return;
    toldMs = performance.now();
    log.error({ err: error }, `the ${name} could not accept a connection on ${where}: ${messageOf(error)}`);
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

function refusal(error: NodeJS.ErrnoException, name: string, where: string): FlynnError {
  if (error.code === 'EADDRINUSE') {
    return new FlynnError('conflict', `the ${name} cannot listen on ${where}: something else does already`);
  }
  if (error.code === 'EADDRNOTAVAIL') {
    return new FlynnError('unavailable', `the ${name} cannot listen on ${where}: this machine has no such address`);
  }
  if (error.code === 'EACCES')
    return new FlynnError('denied', `the ${name} may not listen on ${where}`, { cause: error });
  return asFlynnError(error);
}
