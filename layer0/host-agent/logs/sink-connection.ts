/** One connection to one log sink: what waits for it, sent in batches that are confirmed one after the other. */
import { pause, systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { backoffMs } from '@flynn/kit/retry';
import type { LogLine } from '../api.ts';
import { FairQueue } from './fair-queue.ts';
import { asPart, partUrl } from '@flynn/discovery/parts';
import type { AgentAccess } from '../agent-client.ts';
import { type SinkInstance, sinkRoute, sinkService } from './sink-protocol.ts';
import type { Replay, Sending } from './sink-protocol.ts';
import { formatTimestamp } from './timestamp.ts';

/** In lines of 1,000 characters: a longer one counts as several. */
const queueLimit = 10_000;
const batchSize = 1_000;
/** What comes within this goes together. */
const lingerMs = 20;
const requestMs = 60_000;
const retry = { minMs: 1_000, maxMs: 10_000 };

/** Whose turn a line takes: its app's, or its job's if it has none. */
export function laneOf({ meta, jobId }: LogLine): string {
  return meta['flynn.app'] ?? jobId;
}

function sizeOf({ message }: LogLine): number {
  return 1 + Math.floor(message.length / 1_000);
}

/** What became of lines at this instance. */
type OnSettled = (lines: readonly LogLine[], how: 'confirmed' | 'dropped') => void;

/**
 * INVARIANTS. A line waits here until the sink has confirmed it. What waits has a bound, however long that takes. Apps take
 * turns: one that floods waits for itself. What has to be dropped is counted, and told in the job's own log.
 */
export class SinkConnection implements AsyncDisposable {
  readonly address: string;
  readonly #client: HttpClient;
  readonly #replay: Replay;
  readonly #onRoom: () => void;
  readonly #onSettled: OnSettled;
  readonly #log: Logger;
  readonly #ending = new AbortController();
  readonly #queue = new FairQueue<LogLine>({ limit: queueLimit, sizeOf });
  readonly #dropped = new Map<string, { line: LogLine; count: number }>();
  readonly #running: Promise<void>;
  /** What was taken from the queue and is not confirmed. */
  #batch: LogLine[] = [];
  /** Of that, as the queue counts. */
  #batchUnits = 0;
  #mode: 'fresh' | 'again' = 'fresh';
  #needsReplay = true;
  /** Lines up to this time may have been in the replay. */
  #replayedUntil = '';
  #dropCount = 0;
  #wake = Promise.withResolvers<void>();

  constructor(options: {
    instance: SinkInstance;
    access: AgentAccess;
    replay: Replay;
    onRoom: () => void;
    onSettled: OnSettled;
    log: Logger;
    /** What another instance took and did not confirm. */
    unconfirmed?: readonly LogLine[];
  }) {
    const { instance, access } = options;
    this.address = instance.address;
    this.#client = new HttpClient({
      baseUrl: partUrl(instance, access.identity),
      key: access.key,
      name: 'the log aggregator',
      ...asPart(sinkService, access.identity),
    });
    this.#replay = options.replay;
    this.#onRoom = options.onRoom;
    this.#onSettled = options.onSettled;
    this.#log = options.log;
    this.#take(options.unconfirmed ?? []);
    this.#running = this.#run(this.#ending.signal);
  }

  /** What cannot be sent counts too: however often that is tried, it gets no more. */
  hasRoomFor(line: LogLine): boolean {
    return this.#batchUnits < queueLimit && this.#queue.hasRoom(laneOf(line));
  }

  #take(lines: readonly LogLine[]): void {
    for (const line of lines) {
      this.#batch.push(line);
      this.#batchUnits += sizeOf(line);
    }
  }

  /** The first of the batch, which are done with. */
  #settle(lines: readonly LogLine[]): void {
    this.#batch.splice(0, lines.length);
    for (const line of lines) this.#batchUnits -= sizeOf(line);
    this.#onRoom();
  }

  get dropped(): number {
    return this.#dropCount;
  }

  push(line: LogLine): void {
    this.#drop(this.#queue.push(laneOf(line), line));
    this.#wake.resolve();
  }

  /** Once it is closed: what nobody confirmed. */
  get unconfirmed(): readonly LogLine[] {
    return [...this.#batch, ...this.#queue.take(Infinity)];
  }

  #drop(lines: readonly LogLine[]): void {
    for (const line of lines) {
      this.#dropCount += 1;
      this.#dropped.set(line.jobId, { line, count: (this.#dropped.get(line.jobId)?.count ?? 0) + 1 });
    }
    if (lines.length > 0) this.#onSettled(lines, 'dropped');
  }

  async #run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        if (this.#needsReplay) await this.#catchUp(signal);
        else await this.#fillBatch(signal);
        await this.#sendBatch(signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        this.#mode = 'again';
        if (hasCode(error, 'invalid')) {
          // It would be refused for ever, and everything behind it would wait.
          const refused = this.#batch.slice(0, batchSize);
          this.#drop(refused);
          this.#settle(refused);
        }
        // What answers, if only to refuse, has its memory still.
        this.#needsReplay ||= hasCode(error, 'unavailable', 'timeout', 'cancelled');
        this.#log.warn(`lost the log aggregator at ${this.address}, trying again: ${messageOf(error)}`);
        // A replay reads the logs of all containers: what takes connections only to break them must not have it go on.
        await pause(backoffMs(failures, retry), signal);
        failures += 1;
      }
    }
  }

  /**
   * What waits goes first, so that lines are in their order where nothing of the replay is new. The queue is taken only once
   * what was taken before is confirmed: as often as this fails, it holds one queue beside what waits in that.
   */
  async #catchUp(signal: AbortSignal): Promise<void> {
    this.#mode = 'again';
    await this.#sendBatch(signal);
    if (!signal.aborted) this.#take(this.#queue.take(Infinity));
    this.#onRoom();
    await this.#sendBatch(signal);
    let lines: LogLine[] = [];
    let newest = '';
    for await (const line of this.#replay(signal)) {
      if (line.timestamp > newest) newest = line.timestamp;
      lines.push(line);
      if (lines.length < batchSize) continue;
      await this.#sendReplay(lines, signal);
      lines = [];
    }
    if (lines.length > 0 && !signal.aborted) await this.#sendReplay(lines, signal);
    const now = nowText();
    // A clock that was set back since: what it says then is not to be waited for.
    this.#replayedUntil = newest < now ? newest : now;
    this.#needsReplay = signal.aborted;
  }

  /**
   * What is refused would be so in every replay, and there would be one after the other. Where many hosts send at once, whose
   * turn does not come asks again: one that began anew each time would come to no end.
   */
  async #sendReplay(lines: readonly LogLine[], signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        return await this.#send(lines, 'replay', signal);
      } catch (error) {
        const what = `${lines.length} earlier lines: ${messageOf(error)}`;
        if (hasCode(error, 'invalid')) {
          return this.#log.warn(`the log aggregator at ${this.address} refused ${what}`);
        }
        if (!hasCode(error, 'exhausted')) throw error;
        this.#log.warn(`the log aggregator at ${this.address} has no room yet for ${what}`);
        await pause(backoffMs(failures, retry), signal);
      }
    }
  }

  async #fillBatch(signal: AbortSignal): Promise<void> {
    if (this.#batch.length > 0) return;
    this.#mode = 'fresh';
    const wake = () => this.#wake.resolve();
    signal.addEventListener('abort', wake, { once: true });
    while (this.#queue.size === 0 && this.#dropped.size === 0 && !signal.aborted) {
      this.#wake = Promise.withResolvers<void>();
      await this.#wake.promise;
    }
    signal.removeEventListener('abort', wake);
    if (this.#queue.size < batchSize) await pause(lingerMs, signal);
    this.#take([...this.#notices(), ...this.#queue.take(batchSize)]);
    this.#onRoom();
  }

  async #sendBatch(signal: AbortSignal): Promise<void> {
    while (this.#batch.length > 0 && !signal.aborted) {
      const lines = this.#batch.slice(0, batchSize);
      const isFresh = this.#mode === 'fresh' && lines.every(({ timestamp }) => timestamp > this.#replayedUntil);
      await this.#send(lines, isFresh ? 'fresh' : 'again', signal);
      this.#settle(lines);
      this.#onSettled(lines, 'confirmed');
    }
  }

  async #send(lines: readonly LogLine[], mode: Sending, signal: AbortSignal): Promise<void> {
    await this.#client.call(sinkRoute, { query: { mode }, body: encode(lines) }, { signal, timeoutMs: requestMs });
  }

  #notices(): LogLine[] {
    const timestamp = nowText();
    const notices = Array.from(this.#dropped.values(), ({ line: { jobId, hostId, meta }, count }): LogLine => {
      const message = `${count} lines were dropped: the log aggregator is too slow for this host`;
      return { jobId, hostId, meta, stream: 'init', timestamp, message };
    });
    this.#dropped.clear();
    return notices;
  }

  /** Sends what waits, for as long as that takes, before it closes. */
  async finish(limitMs: number): Promise<void> {
    this.#ending.abort();
    await this.#running;
    const signal = AbortSignal.timeout(limitMs);
    try {
      this.#mode = 'again';
      this.#take(this.#queue.take(Infinity));
      await this.#sendBatch(signal);
    } catch (error) {
      this.#log.warn(`the last lines did not reach the log aggregator at ${this.address}: ${messageOf(error)}`);
    }
    await this.#client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#running;
    await this.#client.close();
  }
}

function nowText(): string {
  return formatTimestamp(BigInt(systemClock.now()) * 1_000_000n);
}

function encode(lines: readonly LogLine[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
