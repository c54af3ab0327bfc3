/** A client that asks again while the cluster cannot answer just now: its store elects, a controller is being replaced. */
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { type Clock, abortError, pause, systemClock } from '@flynn/kit/clock';
import { type FlynnError, asFlynnError, hasCode } from '@flynn/kit/errors';
import { type CallOptions, HttpClient } from '@flynn/kit/http-client';
import { neverSent } from '@flynn/kit/never-sent';
import { backoffMs } from '@flynn/kit/retry';
import type { CallInput, ResponseOf, Route } from '@flynn/kit/routes';

/** Longer than an election, a restart of the only member of the store, or the change from one controller to the next. */
const patienceMs = 20_000;
const pauses = { minMs: 500, maxMs: 2_000 };

type Options = ConstructorParameters<typeof HttpClient>[0];

/**
 * What is asked again is carried out once: a POST names itself, a PUT says how it is to be, and what a DELETE finds gone is
 * gone. Nobody waits where nobody listens: what cannot be reached at all is told at once.
 */
export class PatientClient extends HttpClient {
  readonly #onWait: (error: FlynnError) => void;
  readonly #clock: Clock;
  readonly #closed = new AbortController();

  /** `onWait`: told of each failure after which it is asked again. */
  constructor(options: Options & { onWait: (error: FlynnError) => void; clock?: Clock }) {
    super(options);
    this.#onWait = options.onWait;
    this.#clock = options.clock ?? systemClock;
  }

  override async call<R extends Route>(
    route: R,
    input: CallInput<R>,
    options: CallOptions = {},
  ): Promise<ResponseOf<R>> {
    const once: Record<string, string> = route.method === 'POST' ? { 'idempotency-key': randomUUID() } : {};
    let isAgain = false;
    return this.#patiently(route, options.signal, async () => {
      try {
        return await super.call(route, input, { ...options, headers: { ...once, ...options.headers } });
      } catch (error) {
        // An empty answer is what it would have had: see `wasDone`.
        if (isAgain && wasDone(route, asFlynnError(error))) return undefined as ResponseOf<R>;
        isAgain = true;
        throw error;
      }
    });
  }

  /** Until it begins to come: what breaks off is whoever reads it to see to. */
  override async stream<R extends Route>(route: R, input: CallInput<R>, options: CallOptions = {}): Promise<Readable> {
    return this.#patiently(route, options.signal, () => super.stream(route, input, options));
  }

  async #patiently<T>(route: Route, signal: AbortSignal | undefined, ask: () => Promise<T>): Promise<T> {
    const ended = signal === undefined ? this.#closed.signal : AbortSignal.any([signal, this.#closed.signal]);
    const untilMs = this.#clock.now() + patienceMs;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await ask();
      } catch (error) {
        const known = asFlynnError(error);
        if (!mayAskAgain(route, known) || ended.aborted || this.#clock.now() >= untilMs) throw known;
        this.#onWait(known);
        await pause(backoffMs(attempt, pauses), ended, this.#clock);
        if (ended.aborted) throw signal?.aborted === true ? abortError(signal) : known;
      }
    }
  }

  /** What waits to be asked again is given up, too: whoever asked several things has failed by another of them. */
  override async close(): Promise<void> {
    this.#closed.abort();
    await super.close();
  }
}

function mayAskAgain(route: Route, error: FlynnError): boolean {
  // What has ended so would be answered so again.
  const isFinal = error.detail['isFinal'] === true;
  return route.body !== 'stream' && hasCode(error, 'unavailable', 'timeout') && !neverSent(error.cause) && !isFinal;
}

function wasDone(route: Route, error: FlynnError): boolean {
  return route.method === 'DELETE' && route.response === 'empty' && hasCode(error, 'not_found');
}
