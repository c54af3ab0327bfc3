/** Somebody who answers at the agent's port, before there is an agent: whoever is to reach it later can try now. */
import { createServer } from 'node:net';
import { hasErrno } from '@flynn/kit/errors';

/** The agents' API, on all hosts. */
const agentPort = 1113;
/** An agent that ends has its port so much longer, at most. */
const againMs = 50;

export type Door = Readonly<{ port: number }> & AsyncDisposable;

/**
 * Takes connections and ends them, until it is disposed. Where the port is taken, by an agent of before, that one answers: as long
 * as it is there, for one that the cluster does not know any more ends and begins again all the time.
 */
export async function openDoor(port = agentPort): Promise<Door> {
  const server = createServer((socket) => {
    // Whoever tries it may be gone again.
    socket.on('error', () => {});
    socket.destroy();
  });
  const isAnswered = Promise.withResolvers<void>();
  let again: NodeJS.Timeout | undefined;
  let isClosed = false;
  const listen = (): void => void server.listen({ port, host: '0.0.0.0' });
  server.on('listening', isAnswered.resolve);
  server.on('error', (error) => {
    if (!hasErrno(error, 'EADDRINUSE')) return isAnswered.reject(error);
    isAnswered.resolve();
    if (!isClosed) again = setTimeout(listen, againMs);
  });
  listen();
  await isAnswered.promise;
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
      clearTimeout(again);
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
