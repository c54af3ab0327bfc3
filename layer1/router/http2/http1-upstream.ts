/** Backends that speak HTTP/1.1, and the connections that are kept to them. */
import type { Backend } from '../backend.ts';
import type { Attempt, Receiver, Upstream, UpstreamRequest } from './attempt.ts';
import { Http1Connection } from './http1-connection.ts';

/** Below the 5 s after which many servers close an idle connection, so that it is us who close it. */
const idleMs = 4_000;
/** What cannot be sent again goes only over a connection that was used this lately. */
const freshMs = 1_000;
const maxIdle = 256;

export class Http1Upstream implements Upstream {
  /** Most lately used last. */
  readonly #idle = new Map<Backend, Http1Connection[]>();

  open(backend: Backend, request: UpstreamRequest, receiver: Receiver): Attempt {
    const connection =
      this.#idleOne(backend, request.canRepeat) ?? new Http1Connection(backend, (used) => this.#park(backend, used));
    return connection.take(request, receiver);
  }

  sweep(nowMs: number): void {
    for (const [backend, connections] of this.#idle) {
      const oldestMs = backend.isLeaving ? Infinity : nowMs - idleMs;
      const kept = connections.filter((connection) => {
        if (connection.isOpen && connection.idleSinceMs >= oldestMs) return true;
        connection.close();
        return false;
      });
      if (kept.length === 0) this.#idle.delete(backend);
      else if (kept.length < connections.length) this.#idle.set(backend, kept);
    }
  }

  [Symbol.dispose](): void {
    this.sweep(Infinity);
  }

  #idleOne(backend: Backend, canRepeat: boolean): Http1Connection | undefined {
    const connections = this.#idle.get(backend);
    for (;;) {
      const connection = connections?.at(-1);
      if (connection === undefined) return undefined;
      if (connection.isOpen && !canRepeat && connection.idleSinceMs < performance.now() - freshMs) return undefined;
      connections?.pop();
      if (connection.isOpen) return connection;
    }
  }

  #park(backend: Backend, connection: Http1Connection): void {
    const connections = this.#idle.get(backend) ?? [];
    if (backend.isLeaving || connections.length >= maxIdle) {
      connection.close();
      return;
    }
    connection.idleSinceMs = performance.now();
    connections.push(connection);
    this.#idle.set(backend, connections);
  }
}
