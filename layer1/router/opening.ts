/** Opens a port. */
import type { Server } from 'node:net';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';

/** Several processes may have the port at the same time. Resolves with it; throws `conflict` if it is another program's. */
export async function listenOn(server: Server, options: { host: string; port: number }): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const where = `port ${options.port} of ${options.host}`;
  server.once('error', (error: NodeJS.ErrnoException) => {
    const isTaken = error.code === 'EADDRINUSE';
    reject(
      isTaken ? new FlynnError('conflict', `the router cannot listen on ${where}: it is taken`) : asFlynnError(error),
    );
  });
  server.listen({ ...options, reusePort: true }, resolve);
  await promise;
  server.removeAllListeners('error');
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : options.port;
}
