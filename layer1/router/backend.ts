/** One address behind a service. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { MutualClient } from '@flynn/kit/http-client';
import type { Deadlines } from './http1/deadlines.ts';
import { connectMutually, handshakeMs } from './mutual.ts';
import { BackendFigures } from './policy/figures.ts';
import { Health } from './policy/health.ts';

/** So often the kernel asks the other one for a sign of life, on a connection on which nothing comes. */
const lifeMs = { usually: 15_000, soon: 1_000 } as const;
/** After so many in vain it gives the connection up: of one that left sooner than of one that may only be hard to reach. */
const maxLifeProbes = { whileListed: 8, whenLeft: 3 } as const;

/**
 * INVARIANTS. `inFlight` counts requests and connections that use the backend. When it leaves, all who keep connections to
 * it are told and close the idle ones; a request in flight ends normally. When its host vanishes all of them are cut.
 */
export class Backend {
  readonly service: string;
  readonly address: string;
  readonly host: string;
  readonly port: number;
  /** Of the platform's own: who we are to it, and which role it has to show. */
  readonly mutual: MutualClient | undefined;
  readonly health = new Health();
  readonly figures = new BackendFigures();
  /** Which release of its app it is of, if it says so. */
  release: string | undefined = undefined;
  readonly #onLeave: (() => void)[] = [];
  /** With what had been read of each when it was last looked at, and whether it is asked for signs of life soon. */
  readonly #sockets = new Map<Socket, { bytes: number; isAsked: boolean }>();
  /** As discovery names who is at its address: two for a moment, while one takes another's place there. */
  instanceIds: ReadonlySet<string> = new Set();
  #inFlight = 0;
  #tunnels = 0;
  #isLeaving = false;
  #onRest: (() => void) | undefined;

  constructor(service: string, address: string, mutual?: MutualClient) {
    this.service = service;
    this.mutual = mutual;
    this.address = address;
    const colon = address.lastIndexOf(':');
    this.host = address.slice(0, colon).replace(/^\[|\]$/g, '');
    this.port = Number(address.slice(colon + 1));
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Of what uses it, what will be answered: connections that carry whatever they like end when one of their ends wants it. */
  get requests(): number {
    return this.#inFlight - this.#tunnels;
  }

  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** How long until it may be written to, where a dial may take `dialMs`. */
  openMs(dialMs: number): number {
    return this.mutual === undefined ? dialMs : dialMs + handshakeMs;
  }

  isUsable(nowMs: number): boolean {
    return this.health.isUsable(nowMs);
  }

  /** Counts a use; `giveBack` has to be called once for each when it has ended, with the same word of what it was. */
  take(isTunnel: boolean): void {
    this.#inFlight += 1;
    if (isTunnel) this.#tunnels += 1;
  }

  giveBack(isTunnel: boolean): void {
    this.#inFlight -= 1;
    if (isTunnel) this.#tunnels -= 1;
    else if (this.#isLeaving && this.requests === 0) this.#onRest?.();
  }

  /** Counts a connection; call the result once when it has ended. */
  use(): () => void {
    this.take(true);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.giveBack(true);
    };
  }

  /** For who keeps connections to it. */
  onLeave(listener: () => void): void {
    this.#onLeave.push(listener);
  }

  /** `onRest` is called whenever the last request has ended. */
  leave(onRest?: () => void): void {
    this.#isLeaving = true;
    this.#onRest = onRest;
    for (const listener of this.#onLeave) listener();
    for (const socket of this.#sockets.keys()) {
      socket.setKeepAlive(true, lifeMs.soon, lifeMs.soon, maxLifeProbes.whenLeft);
    }
  }

  /**
   * Of connections on which nothing comes. One that waits for an answer has nothing that the kernel could send in vain:
   * the request has arrived. Until something comes it is asked once a second whether its host is there.
   */
  askForLife(): void {
    if (this.#isLeaving) return;
    for (const [socket, seen] of this.#sockets) {
      if (!seen.isAsked) socket.setKeepAlive(true, lifeMs.soon, lifeMs.soon, maxLifeProbes.whileListed);
      seen.isAsked = true;
    }
  }

  /** Every socket to it belongs to it, from its dial on until it is closed. */
  own(socket: Socket): void {
    this.#sockets.set(socket, { bytes: 0, isAsked: false });
    socket.once('close', () => this.#sockets.delete(socket));
  }

  /** Whether anything was read from it since this was last asked. */
  hasSpoken(): boolean {
    let hasSpoken = false;
    for (const [socket, seen] of this.#sockets) {
      if (socket.bytesRead === seen.bytes) continue;
      seen.bytes = socket.bytesRead;
      hasSpoken = true;
      if (!seen.isAsked || this.#isLeaving) continue;
      socket.setKeepAlive(true, lifeMs.usually);
      seen.isAsked = false;
    }
    return hasSpoken;
  }

  /** Its host is gone: all connections break, in use or not, with an error that `hasVanished` knows. */
  vanish(): void {
    const error = new FlynnError('unavailable', `the host of ${this.address} does not answer`);
    for (const socket of this.#sockets.keys()) socket.destroy(error);
  }

  /** A connection that is no request could not be made. */
  avoid(nowMs: number): void {
    this.health.failed(nowMs, { isProbe: false, wasDial: true, mayEject: false });
  }
}

/** Of an error that broke a connection. */
export function hasVanished(error: unknown): boolean {
  return hasCode(error, 'unavailable');
}

/** How long a connection may take to come about, in time in which this process listened. */
export type Dialling = Readonly<{ timeoutMs: number; deadlines: Deadlines }>;

/** A new connection of its own. Throws `unavailable`. */
export async function dial(backend: Backend, options: Dialling): Promise<Socket> {
  const { host, port, mutual } = backend;
  // Half-close is the business of whoever talks over it: a git client ends its side first.
  const socket =
    mutual === undefined
      ? connect({ host, port, allowHalfOpen: true, noDelay: true })
      : connectMutually({ host, port }, mutual);
  backend.own(socket);
  await untilConnected(socket, backend, { ...options, timeoutMs: backend.openMs(options.timeoutMs) });
  return socket;
}

/** Until it may be written to. Throws `unavailable` when it cannot be, or not in time: the socket is destroyed then. */
export function untilConnected(
  socket: Socket,
  { address }: Pick<Backend, 'address'>,
  { timeoutMs, deadlines }: Dialling,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (error: Error) => {
    stopWaiting();
    socket.destroy();
    reject(new FlynnError('unavailable', `cannot reach ${address}: ${error.message}`, { cause: error }));
  };
  const stopWaiting = deadlines.start(timeoutMs, () => fail(new Error(`no answer within ${timeoutMs} ms`)));
  socket.once('error', fail);
  socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', () => {
    stopWaiting();
    socket.removeListener('error', fail);
    resolve();
  });
  return promise;
}
