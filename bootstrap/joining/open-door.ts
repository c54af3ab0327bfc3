/** Somebody who answers at the agent's port, before there is an agent: whoever is to reach it later can try now. */
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { hasErrno } from '@flynn/kit/errors';

/** The agents' API, on all hosts. */
const agentPort = 1113;
/** An agent that ends has its port so much longer, at most. */
const againMs = 50;

export type Door = Readonly<{ port: number }> & AsyncDisposable;

/**
 * Takes connections and ends them, until it is disposed. At each address by itself: an agent that waits for the store answers at
 * the loopback's alone. Where the port is taken, by an agent of before, that one answers for as long as it is there.
 */
export async function openDoor({
  port = agentPort,
  addresses = machineAddresses(),
}: { port?: number; addresses?: readonly string[] } = {}): Promise<Door> {
  const doors = await Promise.all(addresses.map((address) => doorAt(address, port)));
  return {
    port: doors[0]?.port ?? port,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(doors.map((door) => door[Symbol.asyncDispose]()));
    },
  };
}

async function doorAt(host: string, port: number): Promise<Door> {
  const server = createServer((socket) => {
    // Whoever tries it may be gone again.
    socket.on('error', () => {});
    socket.destroy();
  });
  const isAnswered = Promise.withResolvers<void>();
  let again: NodeJS.Timeout | undefined;
  let isClosed = false;
  const listen = (): void => void server.listen({ port, host });
  server.on('listening', isAnswered.resolve);
  server.on('error', (error) => {
    // An address that went since, as a container's bridge does, nobody tries.
    if (!hasErrno(error, 'EADDRINUSE', 'EADDRNOTAVAIL')) return isAnswered.reject(error);
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

function machineAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((own) => own ?? []);
  return all.filter(({ family }) => family === 'IPv4').map(({ address }) => address);
}
