/** Which backend has a request now, by which attempt, and may another have it after that failed? */
import type { Backend } from '../backend.ts';
import type { Exchange, Problem } from '../exchange.ts';
import type { Attempt, Failure, Receiver, Upstream } from './attempt.ts';
import type { Http2Head } from './request.ts';

export type AttemptsOptions = {
  readonly upstream: Upstream;
  readonly exchange: Exchange;
  readonly head: Http2Head;
  readonly receiver: Receiver;
};

/** INVARIANT. What was begun with is released, once, and its attempt is over or broken off. */
export class Attempts {
  readonly #options: AttemptsOptions;
  readonly #isRepeatable: boolean;
  #backend: Backend | undefined;
  #attempt: Attempt | undefined;
  #hasRepeated = false;
  /** Where a host has vanished others may have too: a dial tells that sooner than a connection that was kept. */
  #wantsNew = false;
  /** What the client is told when there is no other to try. */
  problem: Problem = 'no-backends';

  constructor(options: AttemptsOptions) {
    const { method, body, upgrade } = options.head;
    this.#options = options;
    this.#isRepeatable = body === 'none' && (method === 'GET' || method === 'HEAD') && upgrade === undefined;
  }

  get backend(): Backend | undefined {
    return this.#backend;
  }

  get attempt(): Attempt | undefined {
    return this.#attempt;
  }

  begin(backend: Backend): void {
    const { upstream, exchange, head, receiver } = this.#options;
    this.#backend = backend;
    const request = { head, exchange, canRepeat: this.#isRepeatable, wantsNew: this.#wantsNew };
    this.#attempt = upstream.open(backend, request, receiver);
    this.#attempt.begin();
  }

  /** Before anything of an answer. Answers whether the request may be sent again: nothing of a body goes to two backends. */
  failed(failure: Failure, has: { connected: boolean; sentBody: boolean }): boolean {
    if (failure === 'unfit') {
      this.problem = 'unfit';
      this.letGo();
      return false;
    }
    const isUntouched = !has.connected || failure === 'refused';
    if (this.#backend !== undefined) {
      this.#options.exchange.failed(this.#backend, failure === 'refused' ? 'broke' : failure);
    }
    this.problem = has.connected ? 'backend-broke' : 'unreachable';
    this.letGo();
    if (isUntouched) return !has.sentBody;
    if (!this.#isRepeatable || (failure !== 'vanished' && this.#hasRepeated)) return false;
    if (failure !== 'vanished') this.#hasRepeated = true;
    this.#wantsNew = true;
    return true;
  }

  late(): void {
    if (this.#backend !== undefined) this.#options.exchange.failed(this.#backend, 'late');
  }

  /** The attempt is over by itself. */
  ended(): void {
    this.#attempt = undefined;
  }

  letGo(): void {
    const attempt = this.#attempt;
    const backend = this.#backend;
    this.#attempt = undefined;
    this.#backend = undefined;
    attempt?.abort();
    if (backend !== undefined) this.#options.exchange.release(backend);
  }
}
