/** Gives operations to the runners that ask: who asks waits until there is one for it, and none goes to two. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { Logger } from '@flynn/kit/log';
import type { OperationQueue, Taker } from './queue.ts';
import type { OperationWriter } from './writer.ts';
import type { OperationResource } from '../resources.ts';

type Asking = {
  runner: Taker;
  slots: number;
  signal: AbortSignal;
  /** Being written, or written and not handed over yet: once there is one nothing is added. */
  given: Promise<OperationResource | undefined>[];
  isSettling: boolean;
  refusal: FlynnError | undefined;
  answer: PromiseWithResolvers<OperationResource[]>;
};

const writeMs = 10_000;
/** What could not be given away because the store refused or was away. */
const againMs = 500;

/**
 * INVARIANTS. Who has asked longest is served first, one operation at a time around, so that they share what there is.
 * An operation that was given to somebody who left is put back.
 */
export class OperationDispatch {
  readonly #queue: OperationQueue;
  readonly #writer: OperationWriter;
  readonly #log: Logger;
  readonly #asking = new Set<Asking>();
  readonly #closing = new AbortController();
  #isScheduled = false;

  constructor(options: { queue: OperationQueue; writer: OperationWriter; log: Logger }) {
    this.#queue = options.queue;
    this.#writer = options.writer;
    this.#log = options.log;
  }

  /** Aborts when this controller is about to end: who waits here goes to another one. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  close(): void {
    this.#closing.abort(new FlynnError('unavailable', 'this controller is shutting down: ask again'));
    for (const asking of this.#asking) this.#leave(asking);
  }

  /** Something changed: a look at what can be given away, once the present turn of the event loop is over. */
  wake(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#give();
    });
  }

  /** Up to so many, as soon as there is one; none once the signal aborts. Throws what `refuse` is given. */
  async ask(runner: Taker, slots: number, signal: AbortSignal): Promise<OperationResource[]> {
    this.#closing.signal.throwIfAborted();
    if (signal.aborted) return [];
    const asking: Asking = {
      runner,
      slots,
      signal,
      given: [],
      isSettling: false,
      refusal: undefined,
      answer: Promise.withResolvers(),
    };
    const onAbort = () => this.#leave(asking);
    this.#asking.add(asking);
    signal.addEventListener('abort', onAbort, { once: true });
    this.wake();
    try {
      return await asking.answer.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#asking.delete(asking);
    }
  }

  /** Whoever waits under this id hears the error. */
  refuse(runnerId: string, error: FlynnError): void {
    for (const asking of this.#asking) {
      if (asking.runner.id !== runnerId) continue;
      asking.refusal = error;
      this.#leave(asking);
    }
  }

  /** For somebody else at once, because its runner did not live to hear of it. */
  async putBack(operation: OperationResource): Promise<void> {
    const { runnerId = '', attempt = 0 } = operation.status;
    try {
      await this.#writer.apply(operation.id, { type: 'decline', runnerId, attempt }, { signal: withDeadline(writeMs) });
    } catch (error) {
      // Left alone it goes back by itself a little later.
      if (!hasCode(error, 'conflict', 'not_found'))
        this.#log.warn({ err: error, operation: operation.id }, 'an operation could not be put back');
    }
  }

  #give(): void {
    const asking = [...this.#asking].filter(({ isSettling }) => !isSettling);
    for (let isAny = true; isAny;) {
      isAny = false;
      for (const one of asking) {
        const operation = one.given.length < one.slots ? this.#queue.reserve(one.runner) : undefined;
        if (operation === undefined) continue;
        isAny = true;
        one.given.push(this.#assign(operation, one.runner.id));
      }
    }
    for (const one of asking) if (one.given.length > 0) void this.#settle(one);
  }

  async #settle(asking: Asking): Promise<void> {
    asking.isSettling = true;
    const given = (await Promise.all(asking.given)).filter((operation) => operation !== undefined);
    asking.given = [];
    asking.isSettling = false;
    if (given.length > 0) asking.answer.resolve(given);
    else if (asking.signal.aborted || asking.refusal !== undefined || this.#closing.signal.aborted) this.#leave(asking);
    else this.wake();
  }

  /** What is on its way to it already comes along. */
  #leave({ isSettling, refusal, answer }: Asking): void {
    if (isSettling) return;
    if (refusal !== undefined) answer.reject(refusal);
    else if (this.#closing.signal.aborted) answer.reject(this.#closing.signal.reason);
    else answer.resolve([]);
  }

  async #assign(operation: OperationResource, runnerId: string): Promise<OperationResource | undefined> {
    try {
      // Not with the runner's signal: once it is written it has to be known.
      return await this.#writer.apply(operation.id, { type: 'assign', runnerId }, { signal: withDeadline(writeMs) });
    } catch (error) {
      // Another controller was faster: its change is on its way here. Or the store is away.
      if (!hasCode(error, 'conflict', 'not_found'))
        this.#log.warn({ err: error, operation: operation.id }, 'an operation could not be given to a runner');
      setTimeout(() => {
        this.#queue.letGo(operation);
        this.wake();
      }, againMs).unref();
      return undefined;
    }
  }
}
