/** Reads the log of every container of ours and hands each line to the sink once. */
import { pause, systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { LogLine } from './api.ts';
import type { ContainerTable } from './container-table.ts';
import type { Container, Engine } from './engine.ts';
import { metaOfLabels } from './labels.ts';
import type { LogCursors } from './log-cursors.ts';
import { LineAssembler, advance, isRead, lineOf, readFrom } from './log-lines.ts';
import type { Cursor } from './log-lines.ts';
import { jobIdOf } from './plan.ts';
import { formatTimestamp } from './timestamp.ts';

/** Where lines go. */
export interface LogSink {
  /**
   * Resolves once the sink keeps the line; waits while it cannot take any. The engine has the log meanwhile, so waiting
   * costs neither memory nor the job anything.
   */
  write(line: LogLine, options: { signal: AbortSignal }): Promise<void>;
}

const retryMs = 1_000;
const longestRetryMs = 30_000;
const keptNotes = 20;

/**
 * INVARIANTS. One reader per container. A cursor moves only past lines the sink took. Reading ends when the container is
 * gone, or ended and read to its end.
 */
export class LogPump {
  readonly #engine: Engine;
  readonly #containers: ContainerTable;
  readonly #cursors: LogCursors;
  readonly #sink: LogSink;
  readonly #hostId: string;
  readonly #log: Logger;
  readonly #readers = new Map<string, Promise<void>>();
  readonly #notes = new Map<string, LogLine[]>();
  #changed = Promise.withResolvers<void>();

  constructor(options: {
    engine: Engine;
    containers: ContainerTable;
    cursors: LogCursors;
    sink: LogSink;
    hostId: string;
    log: Logger;
  }) {
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#cursors = options.cursors;
    this.#sink = options.sink;
    this.#hostId = options.hostId;
    this.#log = options.log;
  }

  isShipped(container: Container): boolean {
    if (container.state === 'created') return true;
    return container.state === 'exited' && this.#cursors.get(container.id).endedAtMs === container.endedAtMs;
  }

  /** What the agent itself has to say in the job's log. */
  notesOf(jobId: string): readonly LogLine[] {
    return this.#notes.get(jobId) ?? [];
  }

  note(container: Container, message: string, signal: AbortSignal): void {
    const jobId = jobIdOf(container);
    const line: LogLine = {
      jobId,
      hostId: this.#hostId,
      stream: 'init',
      timestamp: formatTimestamp(BigInt(systemClock.now()) * 1_000_000n),
      message,
      meta: metaOfLabels(container.labels),
    };
    this.#notes.set(jobId, [...this.notesOf(jobId), line].slice(-keptNotes));
    void this.#sink.write(line, { signal }).catch((error: unknown) => {
      if (!signal.aborted) this.#log.warn(`a note about ${jobId} went nowhere: ${messageOf(error)}`);
    });
  }

  /** Resolves when the signal aborts and every reader ended; the cursors are saved then. */
  async run(signal: AbortSignal): Promise<void> {
    const saving = this.#cursors.run(signal);
    const wake = () => {
      this.#changed.resolve();
      this.#changed = Promise.withResolvers<void>();
      if (!signal.aborted) this.#readAll(signal);
    };
    const off = this.#containers.onChange(wake);
    signal.addEventListener('abort', wake, { once: true });
    this.#readAll(signal);
    await saving;
    off();
    await Promise.all(this.#readers.values());
    await this.#cursors.save();
  }

  #readAll(signal: AbortSignal): void {
    if (!this.#containers.isCurrent) return;
    const all = this.#containers.all();
    this.#cursors.keepOnly(new Set(all.map((container) => container.id)));
    const jobIds = new Set(all.map(jobIdOf));
    for (const jobId of this.#notes.keys()) if (!jobIds.has(jobId)) this.#notes.delete(jobId);
    for (const container of all) {
      if (this.#readers.has(container.id) || this.isShipped(container)) continue;
      const reading = this.#read(container.id, signal).finally(() => this.#readers.delete(container.id));
      this.#readers.set(container.id, reading);
    }
  }

  async #read(containerId: string, signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const container = this.#containers.all().find(({ id }) => id === containerId);
      if (container === undefined || this.isShipped(container)) return;
      try {
        await this.#readOnce(container, signal);
        failures = 0;
        if (container.state === 'exited') {
          this.#noteEnd(container);
          continue;
        }
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
        // A power cut leaves such logs: what comes after the damage is lost, and must not keep the container for ever.
        if (container.state === 'exited' && hasCode(error, 'invalid')) {
          this.#log.warn({ containerId }, `the rest of a log cannot be read: ${messageOf(error)}`);
          this.#noteEnd(container);
          continue;
        }
        this.#log.debug({ containerId }, `reading a log broke off, going on soon: ${messageOf(error)}`);
        // Each try may read the whole log.
        await pause(Math.min(longestRetryMs, retryMs * 2 ** (failures - 1)), signal);
        continue;
      }
      // The log ends a moment before the table hears of the container's end.
      if (this.#containers.all().every((known) => known !== container)) continue;
      const changed = this.#changed.promise;
      await Promise.race([changed, pause(retryMs, signal)]);
    }
  }

  #noteEnd({ id, endedAtMs }: Container): void {
    const { cursor } = this.#cursors.get(id);
    this.#cursors.set(id, { cursor, ...(endedAtMs === undefined ? {} : { endedAtMs }) });
  }

  async #readOnce(container: Container, signal: AbortSignal): Promise<void> {
    const sinceNs = readFrom(this.#cursors.get(container.id).cursor);
    const options = { follow: container.state === 'running', signal, ...(sinceNs === undefined ? {} : { sinceNs }) };
    const assembler = new LineAssembler();
    for await (const record of this.#engine.logs(container.id, options)) {
      for (const piece of assembler.push(record)) await this.#ship(piece, container, signal);
    }
    // A running container's line may go on; only an end makes what is there all there is.
    if (container.state !== 'exited' || signal.aborted) return;
    for (const piece of assembler.flush()) await this.#ship(piece, container, signal);
  }

  async #ship(piece: Parameters<typeof isRead>[1], container: Container, signal: AbortSignal): Promise<void> {
    const known = this.#cursors.get(container.id);
    const cursor: Cursor = known.cursor;
    if (isRead(cursor, piece)) return;
    await this.#sink.write(lineOf(piece, container, this.#hostId), { signal });
    this.#cursors.set(container.id, { ...known, cursor: advance(cursor, piece) });
  }
}
