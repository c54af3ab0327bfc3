/** An operation's log on its way to the controller: lines go in batches, each sent until it is known to have arrived. */
import { operations } from '@flynn/controller/operations/api';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry } from '@flynn/kit/retry';

const lingerMs = 150;
const batchLines = 1_000;
/** As JSON: the store takes 1.5 MB at once, and what is not text grows to six times its length. */
const batchBytes = 512 * 1024;
/** Producers wait while more than this many lines have not arrived. */
const waitingLines = 5_000;

/**
 * INVARIANTS. Lines arrive once and in order: a batch is sent with the number of lines before it, again and again until it is
 * acknowledged, and the next one only then. `signal` aborts when the log can no longer be written, with the reason.
 */
export class OperationLines implements AsyncDisposable {
  readonly #controller: HttpClient;
  readonly #params: { runner: string; operation: string };
  readonly #token: string;
  readonly #abort = new AbortController();
  readonly #waiting: string[] = [];
  #sentLines: number;
  #sending: Promise<void> | undefined;
  #flushNow: (() => void) | undefined;

  /** `sentLines`: how many lines the log has of those who were at it before. */
  constructor(controller: HttpClient, params: { runner: string; operation: string }, token: string, sentLines = 0) {
    this.#controller = controller;
    this.#params = params;
    this.#token = token;
    this.#sentLines = sentLines;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Waits only when the controller is far behind. */
  async write(...texts: string[]): Promise<void> {
    this.#waiting.push(...texts.flatMap((text) => text.split('\n')));
    if (this.#abort.signal.aborted) return;
    this.#sending ??= this.#send();
    if (this.#waiting.length > waitingLines) await this.#sending;
  }

  /** Sends what is left. Throws what keeps it from arriving. */
  async flush(): Promise<void> {
    while (this.#sending !== undefined) {
      this.#flushNow?.();
      await this.#sending;
    }
    this.#abort.signal.throwIfAborted();
  }

  /** Gives up what has not arrived: call `flush` before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort(new FlynnError('cancelled', 'the operation has ended'));
    this.#flushNow?.();
    await this.#sending;
  }

  async #send(): Promise<void> {
    await this.#linger();
    while (this.#waiting.length > 0 && !this.#abort.signal.aborted) {
      const lines = nextBatch(this.#waiting);
      const input = { params: this.#params, body: { token: this.#token, offset: this.#sentLines, lines } };
      try {
        await retry((signal) => this.#controller.call(operations.append, input, { signal }), {
          what: 'writing to the log',
          signal: this.#abort.signal,
          deadlineMs: 60_000,
        });
      } catch (error) {
        if (!this.#abort.signal.aborted) this.#abort.abort(error);
        break;
      }
      this.#sentLines += lines.length;
      this.#waiting.splice(0, lines.length);
    }
    this.#sending = undefined;
  }

  #linger(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, lingerMs);
      this.#flushNow = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** As many of the first lines as fit one request, at least one. */
export function nextBatch(lines: readonly string[]): string[] {
  let bytes = 0;
  const count = lines
    .slice(0, batchLines)
    .findIndex((line) => (bytes += Buffer.byteLength(JSON.stringify(line))) > batchBytes);
  return lines.slice(0, count === -1 ? batchLines : Math.max(1, count));
}
