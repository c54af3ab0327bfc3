/** One address behind a service. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { BackendFigures } from './policy/figures.ts';
import { Health } from './policy/health.ts';

/** From one that left, connections are asked once a second for a sign of life, and given up after three in vain. */
const lifeMs = 1_000;
const maxLifeProbes = 3;

/**
 * INVARIANTS. `inFlight` counts requests and connections that use the backend. When it leaves, all who keep connections to
 * it are told and close the idle ones; a request in flight ends normally. When its host vanishes all of them are cut.
 */
export class Backend {
  readonly service: string;
  readonly address: string;
  readonly host: string;
  readonly port: number;
  readonly health = new Health();
  readonly figures = new BackendFigures();
  /** Which release of its app it is of, if it says so. */
  release: string | undefined = undefined;
  readonly #onLeave: (() => void)[] = [];
  /** With what had been read of each when it was last looked at. */
  readonly #sockets = new Map<Socket, number>();
  #inFlight = 0;
  #isLeaving = false;

  constructor(service: string, address: string) {
    this.service = service;
    this.address = address;
    const colon = address.lastIndexOf(':');
    this.host = address.slice(0, colon).replace(/^\[|\]$/g, '');
    this.port = Number(address.slice(colon + 1));
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  isUsable(nowMs: number): boolean {
    return this.health.isUsable(nowMs);
  }

  /** Counts a use; `giveBack` has to be called once for each when it has ended. */
  take(): void {
    this.#inFlight += 1;
  }

  giveBack(): void {
    this.#inFlight -= 1;
  }

  /** Counts a use; call the result once when it has ended. */
  use(): () => void {
    this.take();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.giveBack();
    };
  }

  /** For who keeps connections to it. */
  onLeave(listener: () => void): void {
    this.#onLeave.push(listener);
  }

  leave(): void {
    this.#isLeaving = true;
    for (const listener of this.#onLeave) listener();
    for (const socket of this.#sockets.keys()) socket.setKeepAlive(true, lifeMs, lifeMs, maxLifeProbes);
  }

  /** Every socket to it belongs to it, from its dial on until it is closed. */
  own(socket: Socket): void {
    this.#sockets.set(socket, 0);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  /** Whether anything was read from it since this was last asked. */
  hasSpoken(): boolean {
    let hasSpoken = false;
    for (const [socket, known] of this.#sockets) {
      const { bytesRead } = socket;
      if (bytesRead === known) continue;
      this.#sockets.set(socket, bytesRead);
      hasSpoken = true;
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

/** A new connection of its own. Throws `unavailable`. */
export async function dial(backend: Backend, options: { timeoutMs: number }): Promise<Socket> {
  // Half-close is the business of whoever talks over it: a git client ends its side first.
  const socket = connect({ host: backend.host, port: backend.port, allowHalfOpen: true, noDelay: true });
  backend.own(socket);
  await untilConnected(socket, backend, options);
  return socket;
}

/** Throws `unavailable` when it cannot be, or not in time: the socket is destroyed then. */
export function untilConnected(
  socket: Socket,
  { address }: Pick<Backend, 'address'>,
  { timeoutMs }: { timeoutMs: number },
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (error: Error) => {
    clearTimeout(timer);
    socket.destroy();
    reject(new FlynnError('unavailable', `cannot reach ${address}: ${error.message}`, { cause: error }));
  };
  const timer = setTimeout(() => fail(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  socket.once('error', fail);
  socket.once('connect', () => {
    clearTimeout(timer);
    socket.removeListener('error', fail);
    resolve();
  });
  return promise;
}
