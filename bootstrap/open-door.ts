/** Somebody who answers at the agent's port, before there is an agent: whoever is to reach it later can try now. */
import { createServer } from 'node:net';
import { hasErrno } from '@flynn/kit/errors';

/** The agents' API, on all hosts. */
const agentPort = 1113;

export type Door = Readonly<{ port: number }> & AsyncDisposable;

/** Takes connections and ends them, until it is disposed. Where the port is taken, by an agent of before, that one answers. */
export async function openDoor(port = agentPort): Promise<Door> {
  const server = createServer((socket) => {
    // Whoever tries it may be gone again.
    socket.on('error', () => {});
    socket.destroy();
  });
  const listening = Promise.withResolvers<void>();
  server.once('listening', listening.resolve);
  server.once('error', (error) => {
    if (hasErrno(error, 'EADDRINUSE')) listening.resolve();
    else listening.reject(error);
  });
  server.listen({ port, host: '0.0.0.0' });
  await listening.promise;
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    [Symbol.asyncDispose]: async () => {
      if (server.listening) await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
