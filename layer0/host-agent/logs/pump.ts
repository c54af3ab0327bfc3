/** Reads the log of every container of ours and hands each line to the sink once. */
import { pause, systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { LogLine } from '../api.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, Engine } from '../engine/engine.ts';
import { metaOfLabels } from '../engine/labels.ts';
import type { ContainerCursor, LogCursors } from './cursors.ts';
import { LineAssembler, Unread, advance, lineOf, readFrom } from './lines.ts';
import type { Piece } from './lines.ts';
import { LogProgress } from './progress.ts';
import { jobIdOf } from '../jobs/plan.ts';
import { formatTimestamp } from './timestamp.ts';

/** Where lines go. */
export interface LogSink {
  /**
   * Resolves once the sink holds the line; waits while it cannot take any. The engine has the log meanwhile, so waiting
   * costs neither memory nor the job anything. `onConfirmed` is called, once, when the line is kept where it outlives this
   * process; or when it is given up, which is told in the job's log.
   */
  write(line: LogLine, options: { signal: AbortSignal; onConfirmed?: () => void }): Promise<void>;
}

const retryMs = 1_000;
const longestRetryMs = 30_000;
const keptNotes = 20;
const clockCheckMs = 1_000;
const clockStepMs = 500;

/**
 * INVARIANTS. One reader per container. A cursor on disk moves only past lines that are confirmed: an agent that is killed
 * tells what was on its way again. Reading ends when the container is gone, or ended and read to its end.
 */
export class LogPump {
  readonly #engine: Engine;
  readonly #containers: ContainerTable;
  readonly #cursors: LogCursors;
  readonly #sink: LogSink;
  readonly #hostId: string;
  readonly #log: Logger;
  readonly #readers = new Map<string, Promise<void>>();
  readonly #progress = new Map<string, LogProgress>();
  readonly #notes = new Map<string, LogLine[]>();
  #changed = Promise.withResolvers<void>();
  #shipped = 0;
  #round = new AbortController();

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

  /** Lines handed to the sink since the agent's start. */
  get shipped(): number {
    return this.#shipped;
  }

  /** Whether all of an ended container's log is confirmed: then it may go. */
  isShipped(container: Container): boolean {
    if (container.state === 'created') return true;
    return container.state === 'exited' && this.#cursors.get(container.id).endedAtMs === container.endedAtMs;
  }

  #isRead(container: Container): boolean {
    if (container.state === 'created') return true;
    return container.state === 'exited' && this.#progressOf(container.id).handed.endedAtMs === container.endedAtMs;
  }

  #progressOf(containerId: string): LogProgress {
    const known = this.#progress.get(containerId);
    if (known !== undefined) return known;
    const save = (cursor: ContainerCursor): void => this.#cursors.set(containerId, cursor);
    const progress = new LogProgress(this.#cursors.get(containerId), save);
    this.#progress.set(containerId, progress);
    return progress;
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
    const saving = Promise.all([this.#cursors.run(signal), this.#followClock(signal)]);
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

  /** The engine leaves out what seems to be from before a reading's start: once the clock was set back, readings begin anew. */
  async #followClock(signal: AbortSignal): Promise<void> {
    let offsetMs = systemClock.now() - performance.now();
    while (!signal.aborted) {
      await pause(clockCheckMs, signal);
      const before = offsetMs;
      offsetMs = systemClock.now() - performance.now();
      if (offsetMs > before - clockStepMs) continue;
      this.#log.warn(`the clock was set back by ${Math.round((before - offsetMs) / 1_000)} s: reading logs anew`);
      this.#round.abort();
      this.#round = new AbortController();
    }
  }

  #readAll(signal: AbortSignal): void {
    if (!this.#containers.isCurrent) return;
    const all = this.#containers.all();
    const ids = new Set(all.map((container) => container.id));
    this.#cursors.keepOnly(ids);
    for (const id of this.#progress.keys()) if (!ids.has(id)) this.#progress.delete(id);
    const jobIds = new Set(all.map(jobIdOf));
    for (const jobId of this.#notes.keys()) if (!jobIds.has(jobId)) this.#notes.delete(jobId);
    for (const container of all) {
      if (this.#readers.has(container.id) || this.#isRead(container)) continue;
      const reading = this.#read(container.id, signal).finally(() => this.#readers.delete(container.id));
      this.#readers.set(container.id, reading);
    }
  }

  async #read(containerId: string, signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const container = this.#containers.all().find(({ id }) => id === containerId);
      if (container === undefined || this.#isRead(container)) return;
      const { signal: round } = this.#round;
      try {
        await this.#readOnce(container, AbortSignal.any([signal, round]));
        failures = 0;
        // A reading that is broken off ends as one does that came to the end.
        if (signal.aborted || round.aborted) continue;
        if (container.state === 'exited') {
          this.#noteEnd(container);
          continue;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (round.aborted) continue;
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
    const progress = this.#progressOf(id);
    progress.note({ cursor: progress.handed.cursor, ...(endedAtMs === undefined ? {} : { endedAtMs }) });
  }

  async #readOnce(container: Container, signal: AbortSignal): Promise<void> {
    const { cursor } = this.#progressOf(container.id).handed;
    const unread = new Unread(cursor);
    const sinceNs = readFrom(cursor, BigInt(systemClock.now()) * 1_000_000n);
    const options = { follow: container.state === 'running', signal, ...(sinceNs === undefined ? {} : { sinceNs }) };
    const assembler = new LineAssembler();
    for await (const record of this.#engine.logs(container.id, options)) {
      for (const piece of assembler.push(record)) await this.#ship(piece, unread, container, signal);
    }
    // A running container's line may go on; only an end makes what is there all there is.
    if (container.state !== 'exited' || signal.aborted) return;
    for (const piece of assembler.flush()) await this.#ship(piece, unread, container, signal);
  }

  async #ship(piece: Piece, unread: Unread, container: Container, signal: AbortSignal): Promise<void> {
    if (!unread.isNew(piece)) return;
    const progress = this.#progressOf(container.id);
    const line = lineOf(piece, container, this.#hostId);
    const next = { ...progress.handed, cursor: advance(progress.handed.cursor, piece) };
    await progress.handOn(next, (onConfirmed) => this.#sink.write(line, { signal, onConfirmed }));
    this.#shipped += 1;
  }
}
