/** A TCP proxy on loopback for tests: cuts or freezes what runs through it. */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';

export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** Breaks every connection and refuses new ones, until `restore()`. */
  cut(): void;
  /** Breaks every connection, without a goodbye; new ones are let through. */
  reset(): void;
  /** Lets no more bytes through, in neither direction, without breaking anything, until `restore()`. */
  freeze(): void;
  restore(): void;
}

export async function startTcpProxy(targetPort: number, targetHost = '127.0.0.1'): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let mode: 'open' | 'cut' | 'frozen' = 'open';
  const server = createServer((inbound) => {
    if (mode === 'cut') {
      inbound.destroy();
      return;
    }
    const outbound = connect({ port: targetPort, host: targetHost });
    join(inbound, outbound);
    join(outbound, inbound);
    if (mode === 'frozen') pauseBoth(inbound, outbound);
  });
  const join = (from: Socket, to: Socket) => {
    sockets.add(from);
    from.on('data', (chunk) => {
      if (!to.write(chunk)) from.pause();
    });
    to.on('drain', () => {
      if (mode !== 'frozen') from.resume();
    });
    // The error of one side ends both; the tests look at what the client makes of it.
    from.on('error', () => to.destroy());
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
  };
  const pauseBoth = (...both: Socket[]) => both.forEach((socket) => socket.pause());

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');

  const destroyAll = () => sockets.forEach((socket) => socket.destroy());
  return {
    port: address.port,
    cut() {
      mode = 'cut';
      destroyAll();
    },
    reset() {
      sockets.forEach((socket) => socket.resetAndDestroy());
    },
    freeze() {
      mode = 'frozen';
      pauseBoth(...sockets);
    },
    restore() {
      mode = 'open';
      sockets.forEach((socket) => socket.resume());
    },
    async [Symbol.asyncDispose]() {
      destroyAll();
      server.close();
      await once(server, 'close');
    },
  };
}
