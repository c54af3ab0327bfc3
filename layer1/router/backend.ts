/** One address behind a service, with the connections that are kept open to it. */
import { Agent } from 'node:http';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { FlynnError } from '@flynn/kit/errors';
import { BackendFigures } from './policy/figures.ts';
import { Health } from './policy/health.ts';

/** Below the 5 s after which many servers close an idle connection, so that it is us who close it. */
const idleMs = 4_000;
/** A request that cannot be sent again goes only over a connection that was used this lately. */
const freshMs = 1_000;
const avoidMs = 5_000;

/**
 * INVARIANTS. `inFlight` counts requests and connections that use the backend. A backend that leaves keeps no idle
 * connection, and a request in flight ends normally. When it has left and nothing is in flight, no socket is left.
 */
export class Backend {
  readonly service: string;
  readonly address: string;
  readonly host: string;
  readonly port: number;
  readonly agent: Agent;
  readonly #idleSince = new WeakMap<object, number>();
  readonly health = new Health();
  readonly figures = new BackendFigures();
  /** Which release of its app it is of, if it says so. */
  release: string | undefined = undefined;
  #inFlight = 0;
  #isLeaving = false;
  avoidUntilMs = 0;

  constructor(service: string, address: string) {
    this.service = service;
    this.address = address;
    const colon = address.lastIndexOf(':');
    this.host = address.slice(0, colon).replace(/^\[|\]$/g, '');
    this.port = Number(address.slice(colon + 1));
    this.agent = new Agent({ keepAlive: true, keepAliveMsecs: 15_000, maxFreeSockets: 256, timeout: idleMs });
    this.agent.on('free', (socket: Socket) => this.#idleSince.set(socket, performance.now()));
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
    if (this.#isLeaving && this.#inFlight === 0) this.#closeIdle();
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

  /** The backend may be closing a connection that has been idle for a while at this very moment. */
  closeStale(): void {
    const beforeMs = performance.now() - freshMs;
    this.#closeIdle((socket) => (this.#idleSince.get(socket) ?? 0) < beforeMs);
  }

  leave(): void {
    this.#isLeaving = true;
    this.agent.maxFreeSockets = 0;
    this.#closeIdle();
  }

  avoid(nowMs: number): void {
    this.avoidUntilMs = nowMs + avoidMs;
  }

  #closeIdle(isMeant: (socket: Socket) => boolean = () => true): void {
    for (const socket of Object.values(this.agent.freeSockets).flat()) {
      if (socket !== undefined && isMeant(socket)) socket.destroy();
    }
  }
}

/** A new connection of its own. Throws `unavailable` or `timeout`. */
export function dial(backend: Backend, options: { timeoutMs: number }): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  // Half-close is the business of whoever talks over it: a git client ends its side first.
  const socket = connect({ host: backend.host, port: backend.port, allowHalfOpen: true, noDelay: true });
  const fail = (error: Error) => {
    clearTimeout(timer);
    socket.destroy();
    reject(new FlynnError('unavailable', `cannot reach ${backend.address}: ${error.message}`, { cause: error }));
  };
  const timer = setTimeout(() => fail(new Error(`no answer within ${options.timeoutMs} ms`)), options.timeoutMs);
  socket.once('error', fail);
  socket.once('connect', () => {
    clearTimeout(timer);
    socket.removeListener('error', fail);
    resolve(socket);
  });
  return promise;
}
