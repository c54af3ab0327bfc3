/** One address behind a service. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { FlynnError } from '@flynn/kit/errors';
import { BackendFigures } from './policy/figures.ts';
import { Health } from './policy/health.ts';

/**
 * INVARIANTS. `inFlight` counts requests and connections that use the backend. When it leaves, all who keep connections to
 * it are told and close the idle ones; a request in flight ends normally.
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
  }

  /** A connection that is no request could not be made. */
  avoid(nowMs: number): void {
    this.health.failed(nowMs, { isProbe: false, wasDial: true, mayEject: false });
  }
}

/** A new connection of its own. Throws `unavailable`. */
export async function dial(backend: Backend, options: { timeoutMs: number }): Promise<Socket> {
  // Half-close is the business of whoever talks over it: a git client ends its side first.
  const socket = connect({ host: backend.host, port: backend.port, allowHalfOpen: true, noDelay: true });
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
