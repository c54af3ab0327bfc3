/** The connections that are kept open to backends, and the clock that they share. */
import { performance } from 'node:perf_hooks';
import type { Backend } from '../backend.ts';
import { BackendConnection } from './backend-connection.ts';
import type { AnswerReceiver } from './backend-connection.ts';
import type { Deadlines } from './deadlines.ts';

/** A request that cannot be sent again goes only over a connection that was used this lately. */
const freshMs = 1_000;
const maxIdle = 1_024;

/** INVARIANT. A backend that left keeps no idle connection; what is in use ends normally. */
export class Pools {
  readonly #deadlines: Deadlines;
  readonly #idle = new WeakMap<Backend, BackendConnection[]>();

  constructor(deadlines: Deadlines) {
    this.#deadlines = deadlines;
  }

  /**
   * An idle connection, or a new one that still has to connect (`onConnected`). The backend may be closing one that has
   * been idle for a while at this very moment: `isRepeatable` says that the request could then be sent again.
   */
  take(
    backend: Backend,
    receiver: AnswerReceiver,
    isRepeatable: boolean,
  ): { connection: BackendConnection; isNew: boolean } {
    const idle = this.#idle.get(backend);
    // The one used last: if it is stale, all are.
    const last = idle?.at(-1);
    if (last !== undefined && (isRepeatable || performance.now() - last.idleSinceMs < freshMs)) {
      idle?.pop();
      last.use(receiver);
      return { connection: last, isNew: false };
    }
    return { connection: this.open(backend, receiver), isNew: true };
  }

  open(backend: Backend, receiver: AnswerReceiver): BackendConnection {
    const onClosed = (connection: BackendConnection) => this.#remove(connection);
    return new BackendConnection(backend, receiver, { deadlines: this.#deadlines, onClosed });
  }

  /** After an answer. The connection is kept if it can be used again. */
  give(connection: BackendConnection): void {
    const { backend } = connection;
    const idle = this.#idle.get(backend) ?? this.#start(backend);
    if (!connection.isUsable || backend.isLeaving || idle.length >= maxIdle) {
      connection.destroy();
      return;
    }
    connection.rest();
    idle.push(connection);
  }

  #start(backend: Backend): BackendConnection[] {
    const idle: BackendConnection[] = [];
    this.#idle.set(backend, idle);
    backend.onLeave(() => {
      for (const connection of idle.splice(0)) connection.destroy();
    });
    return idle;
  }

  #remove(connection: BackendConnection): void {
    const idle = this.#idle.get(connection.backend);
    const at = idle?.indexOf(connection) ?? -1;
    if (at >= 0) idle?.splice(at, 1);
  }
}
