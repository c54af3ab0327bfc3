/** One connection to one log sink: a bounded queue, drained into requests that follow each other. */
import { Readable } from 'node:stream';
import { pause, systemClock } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import type { LogLine } from './api.ts';
import { sinkRoute } from './sink-protocol.ts';
import type { Replay } from './sink-protocol.ts';
import { formatTimestamp } from './timestamp.ts';

const queueLimit = 10_000;
const linesAtOnce = 500;
/** The answer to a request confirms its lines, so requests end now and then. */
const requestMs = 5 * 60_000;
const retryMs = 1_000;
const longestRetryMs = 10_000;
const goodRequestMs = 30_000;

/** INVARIANTS. At most `queueLimit` lines wait. What is dropped is counted, and told in the job's own log. */
export class SinkConnection implements AsyncDisposable {
  readonly address: string;
  readonly #client: HttpClient;
  readonly #replay: Replay;
  readonly #onRoom: () => void;
  readonly #log: Logger;
  readonly #ending = new AbortController();
  readonly #queue: LogLine[] = [];
  readonly #dropped = new Map<string, { line: LogLine; count: number }>();
  readonly #running: Promise<void>;
  #dropCount = 0;
  #wake = Promise.withResolvers<void>();

  constructor(options: { address: string; key: string; replay: Replay; onRoom: () => void; log: Logger }) {
    this.address = options.address;
    this.#client = new HttpClient({
      baseUrl: `http://${options.address}`,
      key: options.key,
      name: 'the log aggregator',
    });
    this.#replay = options.replay;
    this.#onRoom = options.onRoom;
    this.#log = options.log;
    this.#running = this.#run(this.#ending.signal);
  }

  get hasRoom(): boolean {
    return this.#queue.length < queueLimit / 2;
  }

  get dropped(): number {
    return this.#dropCount;
  }

  push(line: LogLine): void {
    if (this.#queue.length >= queueLimit) this.#drop();
    this.#queue.push(line);
    this.#wake.resolve();
  }

  #drop(): void {
    const line = this.#queue.shift();
    if (line === undefined) return;
    this.#dropCount += 1;
    this.#dropped.set(line.jobId, { line, count: (this.#dropped.get(line.jobId)?.count ?? 0) + 1 });
  }

  async #run(signal: AbortSignal): Promise<void> {
    let needsReplay = true;
    let failures = 0;
    while (!signal.aborted) {
      const requestOver = new AbortController();
      const startedAtMs = performance.now();
      try {
        const body = this.#body(needsReplay, AbortSignal.any([signal, requestOver.signal]));
        const stream = Readable.from(body, { objectMode: false });
        await this.#client.call(sinkRoute, { body: stream }, { signal, timeoutMs: requestMs + 60_000 });
        needsReplay = false;
        failures = 0;
      } catch (error) {
        // Nobody reads its body any more: it must not take lines out of the queue.
        requestOver.abort();
        if (signal.aborted) return;
        needsReplay = true;
        // A replay reads the logs of all containers: what takes connections only to break them must not have it go on.
        failures = performance.now() - startedAtMs > goodRequestMs ? 0 : failures + 1;
        this.#log.warn(`lost the log aggregator at ${this.address}, trying again: ${messageOf(error)}`);
        await pause(Math.min(longestRetryMs, retryMs * 2 ** Math.max(0, failures - 1)), signal);
      }
    }
  }

  async *#body(needsReplay: boolean, signal: AbortSignal): AsyncGenerator<string> {
    if (needsReplay) for await (const line of this.#replay(signal)) yield encode([line]);
    const isOver = AbortSignal.any([signal, AbortSignal.timeout(requestMs)]);
    isOver.addEventListener('abort', () => this.#wake.resolve(), { once: true });
    while (!isOver.aborted) {
      const notices = this.#notices();
      const lines = this.#queue.splice(0, linesAtOnce);
      if (notices.length + lines.length > 0) {
        yield encode([...notices, ...lines]);
        this.#onRoom();
        continue;
      }
      this.#wake = Promise.withResolvers<void>();
      await this.#wake.promise;
    }
  }

  #notices(): LogLine[] {
    const timestamp = formatTimestamp(BigInt(systemClock.now()) * 1_000_000n);
    const notices = Array.from(this.#dropped.values(), ({ line: { jobId, hostId, meta }, count }): LogLine => {
      const message = `${count} lines were dropped: the log aggregator is too slow for this host`;
      return { jobId, hostId, meta, stream: 'init', timestamp, message };
    });
    this.#dropped.clear();
    return notices;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#running;
    await this.#client.close();
  }
}

function encode(lines: readonly LogLine[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
