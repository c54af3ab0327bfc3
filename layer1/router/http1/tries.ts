/** Which backend has a request now, over which connection, and may another have it after that failed? */
import type { Backend } from '../backend.ts';
import type { Exchange, Problem } from '../exchange.ts';
import type { AnswerReceiver, BackendConnection } from './backend-connection.ts';
import type { Pools } from './pool.ts';
import type { Http1RequestHead } from './request-head.ts';

/** INVARIANT. What was begun with is released, once, and its connection is given back or destroyed. */
export class Tries {
  readonly #exchange: Exchange;
  readonly #pools: Pools;
  readonly #isUpgrade: boolean;
  readonly #isRepeatable: boolean;
  #backend: Backend | undefined;
  #connection: BackendConnection | undefined;
  #hasRepeated = false;
  /** Where one has gone others may have too: a dial tells that of them, where a connection that was kept breaks as well. */
  #wantsNew = false;
  /** What the client is told when there is no other to try. */
  problem: Problem = 'no-backends';

  constructor(exchange: Exchange, pools: Pools, head: Http1RequestHead) {
    this.#exchange = exchange;
    this.#pools = pools;
    this.#isUpgrade = head.upgrade !== undefined;
    this.#isRepeatable = head.body === 'none' && (head.method === 'GET' || head.method === 'HEAD');
  }

  get backend(): Backend | undefined {
    return this.#backend;
  }

  get connection(): BackendConnection | undefined {
    return this.#connection;
  }

  /** Whether the connection takes the request now; else the receiver hears `onConnected`. */
  begin(backend: Backend, receiver: AnswerReceiver): boolean {
    this.#backend = backend;
    if (this.#isUpgrade || this.#wantsNew) {
      this.#connection = this.#pools.open(backend, receiver);
      return false;
    }
    const { connection, isNew } = this.#pools.take(backend, receiver, this.#isRepeatable);
    this.#connection = connection;
    return !isNew;
  }

  /** It had nothing of the request. */
  undialled(): void {
    if (this.#backend !== undefined) this.#exchange.failed(this.#backend, 'dial');
    this.problem = 'unreachable';
    this.letGo();
  }

  /** Before anything of an answer went on. Answers whether the request may be sent again. */
  broke(how: 'broke' | 'vanished'): boolean {
    const hasAnswered = this.#connection?.hasAnswered === true;
    if (this.#backend !== undefined) this.#exchange.failed(this.#backend, how);
    this.problem = 'backend-broke';
    this.letGo();
    if (hasAnswered || !this.#isRepeatable || (how === 'broke' && this.#hasRepeated)) return false;
    if (how === 'broke') this.#hasRepeated = true;
    this.#wantsNew = true;
    return true;
  }

  late(): void {
    if (this.#backend !== undefined) this.#exchange.failed(this.#backend, 'late');
  }

  /** Answered whole. What an app did not want to read stands between its answer and another's request. */
  answered(hasAllOfRequest: boolean): void {
    const connection = this.#connection;
    const backend = this.#backend;
    this.#connection = undefined;
    this.#backend = undefined;
    if (backend !== undefined) this.#exchange.release(backend);
    if (connection === undefined) return;
    connection.socket.resume();
    if (hasAllOfRequest) this.#pools.give(connection);
    else connection.destroy();
  }

  letGo(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
    if (this.#backend !== undefined) this.#exchange.release(this.#backend);
    this.#backend = undefined;
  }
}
