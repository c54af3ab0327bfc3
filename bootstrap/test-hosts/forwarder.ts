/** Ports of this machine's loopback that lead to whichever host answers first, so that hosts answer as one does. */
import { type Server, type Socket, connect, createServer } from 'node:net';
import { pipeline } from 'node:stream';

/** A host that is off answers nothing at all. */
const connectMs = 1_000;
/** How long one that did not answer is asked last. */
const avoidMs = 5_000;

export type Way = Readonly<{ port: number; targets: readonly Readonly<{ host: string; port: number }>[] }>;

export type ForwarderOptions = {
  way: Way;
  /** Of this machine, which the port is taken on. */
  address: string;
  now: () => number;
};

/** Hosts are tried in their order, those that failed lately last; a client no host takes is hung up on. */
export class Forwarder implements AsyncDisposable {
  readonly #targets: Way['targets'];
  readonly #now: () => number;
  readonly #avoidedUntil = new Map<string, number>();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor({ way, now }: ForwarderOptions) {
    this.#targets = way.targets;
    this.#now = now;
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => void this.#forward(client));
  }

  static async listen(options: ForwarderOptions): Promise<Forwarder> {
    const forwarder = new Forwarder(options);
    const server = forwarder.#server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: options.address, port: options.way.port }, () => {
        server.off('error', reject);
        resolve();
      });
    });
    return forwarder;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  async #forward(client: Socket): Promise<void> {
    this.#keep(client);
    for (const target of this.#inOrder()) {
      const host = await this.#connect(target);
      if (host === undefined) continue;
      if (client.destroyed) return void host.destroy();
      // Whichever side breaks takes the other with it; there is nobody to tell.
      pipeline(client, host, client, () => {
        host.destroy();
        client.destroy();
      });
      return;
    }
    client.resetAndDestroy();
  }

  #inOrder(): Way['targets'] {
    const isAvoided = ({ host }: { host: string }): boolean => (this.#avoidedUntil.get(host) ?? 0) > this.#now();
    return [...this.#targets.filter((one) => !isAvoided(one)), ...this.#targets.filter(isAvoided)];
  }

  #connect(target: Way['targets'][number]): Promise<Socket | undefined> {
    return new Promise((resolve) => {
      const socket = connect({ ...target, allowHalfOpen: true });
      this.#keep(socket);
      const fail = (): void => {
        this.#avoidedUntil.set(target.host, this.#now() + avoidMs);
        socket.destroy();
        resolve(undefined);
      };
      // After a standstill of this process its answer may be there, unread.
      const late = (): void => {
        if (socket.connecting) fail();
      };
      socket.setTimeout(connectMs, () => setImmediate(late));
      socket.once('error', fail);
      socket.once('connect', () => {
        socket.setTimeout(0);
        socket.off('error', fail);
        this.#avoidedUntil.delete(target.host);
        resolve(socket);
      });
    });
  }

  /** Every socket has somebody who hears its error, also before it is piped. */
  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#sockets.delete(socket));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
