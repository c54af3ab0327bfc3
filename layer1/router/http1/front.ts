/** HTTP/1 with clients, on sockets themselves: request and response objects would cost more than all the rest of it. */
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { systemClock } from '@flynn/kit/clock';
import { drainLookMs } from '../closing.ts';
import { answersToOneEnd } from '../exchange.ts';
import type { Client, Front, Http1Speaker, Policy } from '../exchange.ts';
import { H2cUpstream } from '../http2/h2c-upstream.ts';
import { ClientConnection } from './client-connection.ts';
import type { FrontContext } from './client-connection.ts';
import { Deadlines } from './deadlines.ts';
import { Pools } from './pool.ts';

/**
 * Who asks more often than this hears of the end of a connection with an answer, instead of finding it closed. Who has not
 * asked for so long may do so at any moment, now as well as later: waiting for longer would spare nobody.
 */
const goodbyeMs = 3_000;

/** The clock, and the connections to backends. */
export type Shared = Readonly<{ deadlines: Deadlines; pools: Pools; h2c: H2cUpstream }>;

export function shared(): Shared {
  const deadlines = new Deadlines();
  return { deadlines, pools: new Pools(deadlines), h2c: new H2cUpstream(deadlines) };
}

export class Http1Front implements Http1Speaker {
  readonly #connections = new Set<ClientConnection>();
  readonly #context: FrontContext & { isDraining: boolean };
  /** Connections that began before this end with one of their next answers. */
  #sharedSinceMs = -Infinity;
  #answersOfOlder = 0;
  readonly #goodbyeMs: number;

  /** What it shares with another front is that one's to end; `http2` takes clients that begin to speak it. */
  constructor(options: { policy: Policy; shared?: Shared; http2?: Pick<Front, 'take'>; goodbyeMs?: number }) {
    this.#goodbyeMs = options.goodbyeMs ?? goodbyeMs;
    const { deadlines, pools, h2c } = options.shared ?? shared();
    this.#context = {
      policy: options.policy,
      deadlines,
      pools,
      h2c,
      http2: options.http2,
      isDraining: false,
      isLetGo: ({ beganMs }) => {
        if (beganMs > this.#sharedSinceMs) return false;
        this.#answersOfOlder += 1;
        return this.#answersOfOlder % answersToOneEnd === 0;
      },
      closed: (connection) => this.#connections.delete(connection),
    };
  }

  /** The socket is one with `allowHalfOpen`: a client may end its side before it has its answer. */
  take(socket: Socket, client: Client, early?: Buffer): void {
    const connection = new ClientConnection(socket, client, this.#context);
    this.#connections.add(connection);
    if (early !== undefined && early.length > 0) connection.begin(early);
  }

  get connections(): number {
    return this.#connections.size;
  }

  shareOut(): void {
    this.#sharedSinceMs = this.#context.deadlines.nowMs;
  }

  async drain(options: { deadlineMs: number; restMs?: number }): Promise<void> {
    this.#context.isDraining = true;
    const startedMs = performance.now();
    const elapsedMs = () => performance.now() - startedMs;
    const restMs = options.restMs ?? Math.min(this.#goodbyeMs, options.deadlineMs / 2);
    let resting = new Set<ClientConnection>();
    while (this.#connections.size > 0 && elapsedMs() < options.deadlineMs) {
      // In the second look only: what had arrived by the first has been read by then.
      const rested = [...this.#connections].filter(({ idleMs }) => idleMs > restMs);
      for (const connection of rested) if (resting.has(connection)) connection.socket.destroy();
      resting = new Set(rested);
      // A connection that was let go of is counted until it is closed, in the next turn.
      await systemClock.sleep(drainLookMs(options.deadlineMs));
      // After a standstill a timer comes before what has arrived meanwhile is read.
      await setImmediate();
    }
    for (const connection of this.#connections) connection.socket.destroy();
  }
}
