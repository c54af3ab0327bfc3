/** One drain: reads the logs it is for, each from its own place, and sends what it finds. */
import { pause, systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { backoffMs, raceAbort } from '@flynn/kit/retry';
import type { Slots } from '@flynn/kit/slots';
import type { Drain, DrainStatus } from './api.ts';
import type { AppLog } from './app-log.ts';
import { withMissed } from './drain-state.ts';
import type { DrainState, Missed } from './drain-state.ts';
import type { NamedLine, Transport } from './drain-transport.ts';
import { linesOf, parseStored } from './filter.ts';
import type { History } from './history.ts';
import type { Position } from './segments.ts';

/** What comes within this goes together. */
const lingerMs = 100;
const retry = { minMs: 500, maxMs: 60_000 };
const saveEveryMs = 1_000;
const linesAtOnce = 1_000;
const largeBytes = 256 * 1024;
const littleBytes = 16 * 1024;
/** Whose last lines took so long to be taken is slow. */
const slowMs = 1_000;
const noRoom = 'they were deleted to make room before they could be sent';
const notKept = 'the disk of the log aggregator did not keep them, as after a power cut';
const start: Position = { byte: 0, line: 0 };

type Sent = {
  app: string;
  next: Position;
  sent: number;
  failed: number;
  atMs: number;
  /** Why those failed. */
  why: string;
} & Skipped;

/** Lines before these that are kept no longer, and that the disk lost. */
type Skipped = { lost: number; damaged: number };

/**
 * Who sends holds a block, and so many do at once. Nobody waits for a large one: who finds no place goes on with a little one,
 * so whoever takes its time is not waited for by others. Those that fail try with a little one, and wait for each other alone.
 */
export type Places = Readonly<{
  large: Slots;
  /** Of those: whoever is slow leaves so many free. */
  keptForQuick: number;
  little: Slots;
  failing: Slots;
}>;

export type DrainOptions = {
  drain: Drain;
  history: History;
  transport: Transport;
  places: Places;
  state: DrainState;
  save: (state: DrainState) => Promise<void>;
  appName: (app: string) => string;
  log: Logger;
  clock?: Clock;
};

/**
 * INVARIANTS. Every line the logs keep is sent at least once, in the order of its app's log: what was not confirmed is sent
 * again, also after a restart. A place is saved only once everything before it is certain. Apps take turns. While the
 * other side takes nothing, nothing is held in memory but one block: the rest waits on disk, for as long as it is kept.
 */
export class DrainRunner {
  readonly #options: DrainOptions;
  readonly #clock: Clock;
  readonly #state: DrainState;
  /** Where reading goes on: behind what was sent and is not certain yet. */
  readonly #reading = new Map<string, Position>();
  #doubtful: Sent[] = [];
  #failing: { error: string; sinceMs: number } | undefined;
  #isSlow = false;
  #isDirty = false;
  #savedMs = 0;

  constructor(options: DrainOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#state = options.state;
  }

  get drain(): Drain {
    return this.#options.drain;
  }

  get status(): DrainStatus {
    const { sent, failed, skipped, gaveUp, lost, damaged } = this.#state;
    const waiting = this.#logs().reduce(
      (sum, [app, { end }]) => sum + Math.max(0, end.line - this.#settled(app).line),
      0,
    );
    const progress = {
      id: this.drain.id,
      sent,
      failed,
      skipped,
      waiting,
      ...(gaveUp === undefined ? {} : { gaveUp: missedOf(gaveUp) }),
      ...(lost === undefined ? {} : { lost: missedOf(lost) }),
      ...(damaged === undefined ? {} : { damaged: missedOf(damaged) }),
    };
    if (this.#failing === undefined) return progress;
    const { error, sinceMs } = this.#failing;
    return { ...progress, error, since: new Date(sinceMs).toISOString() };
  }

  #settled(app: string): Position {
    return this.#state.positions[app] ?? start;
  }

  #logs(): [string, AppLog][] {
    const { drain, history } = this.#options;
    const apps = drain.appId === undefined ? history.apps : [drain.appId];
    return apps.flatMap((app): [string, AppLog][] => {
      const log = history.find(app);
      return log === undefined ? [] : [[app, log]];
    });
  }

  /** Resolves when the signal aborts; what was sent until then is saved. */
  async run(signal: AbortSignal): Promise<void> {
    const { history, transport, log } = this.#options;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const { grown } = history;
        if (await this.#sendRound(signal)) failures = 0;
        else await this.#wait(grown, signal);
      } catch (error) {
        if (signal.aborted) break;
        this.#goBack();
        const pauseMs = backoffMs(failures, retry);
        failures += 1;
        if (this.#failing === undefined)
          log.warn({ drain: this.drain.id }, `a drain does not take lines: ${messageOf(error)}`);
        this.#fails(messageOf(error));
        await pause(pauseMs, signal, this.#clock);
      }
    }
    // What was handed over goes out before the connection is closed.
    if (!transport.isBroken) this.#settle(Infinity);
    await transport.close();
    await this.#save();
  }

  /** Until there is more, or what was sent before is certain. */
  async #wait(grown: Promise<void>, signal: AbortSignal): Promise<void> {
    const { doubtMs } = this.#options.transport;
    if (this.#doubtful.length > 0) {
      await this.#clock.sleep(Math.max(lingerMs, doubtMs / 4), { signal });
      return;
    }
    await this.#save();
    await raceAbort(grown, signal);
    await this.#clock.sleep(lingerMs, { signal });
  }

  /** A block of each log. False if there was nothing. */
  async #sendRound(signal: AbortSignal): Promise<boolean> {
    this.#check();
    let hasSent = false;
    for (const [app, log] of this.#logs()) {
      // A power cut may have taken from the log what was sent already.
      if (this.#settled(app).byte > log.end.byte) this.#state.positions[app] = log.end;
      const at = this.#reading.get(app) ?? this.#settled(app);
      if (at.byte >= log.end.byte) continue;
      const { slots, sizeBytes } = this.#place();
      if (await slots.run(() => this.#sendBlock(app, log, { at, sizeBytes, signal }), { signal })) hasSent = true;
    }
    return hasSent;
  }

  #place(): { slots: Slots; sizeBytes: number } {
    const { large, keptForQuick, little, failing } = this.#options.places;
    if (this.#failing !== undefined) return { slots: failing, sizeBytes: littleBytes };
    if (large.free > (this.#isSlow ? keptForQuick : 0)) return { slots: large, sizeBytes: largeBytes };
    return { slots: little, sizeBytes: littleBytes };
  }

  async #sendBlock(
    app: string,
    log: AppLog,
    { at, sizeBytes, signal }: { at: Position; sizeBytes: number; signal: AbortSignal },
  ): Promise<boolean> {
    const block = await log.readFrom(at, log.end, sizeBytes);
    if (block === undefined) return false;
    let skipped: Skipped = { lost: block.lost, damaged: block.damaged };
    let next = block.from;
    let lines: Buffer[] = [];
    for (const line of linesOf(block.bytes)) {
      lines.push(line);
      next = { byte: next.byte + line.length, line: next.line + 1 };
      if (lines.length < linesAtOnce) continue;
      await this.#send(app, lines, { next, ...skipped }, signal);
      lines = [];
      skipped = { lost: 0, damaged: 0 };
    }
    if (lines.length > 0) await this.#send(app, lines, { next, ...skipped }, signal);
    return true;
  }

  async #send(
    app: string,
    texts: readonly Buffer[],
    { next, lost, damaged }: { next: Position } & Skipped,
    signal: AbortSignal,
  ): Promise<void> {
    const { transport, appName } = this.#options;
    const lines = texts.flatMap((text): NamedLine[] => {
      const line = parseStored(text);
      return line === undefined ? [] : [{ app, appName: appName(app), line }];
    });
    this.#check();
    const beganMs = this.#clock.now();
    const refused = lines.length === 0 ? undefined : await transport.send(lines, signal);
    this.#isSlow = this.#clock.now() - beganMs >= slowMs;
    // Whoever refuses some for good takes lines all the same.
    this.#failing = undefined;
    const { lines: failed, why } = refused ?? { lines: 0, why: '' };
    this.#reading.set(app, next);
    const atMs = this.#clock.now();
    this.#doubtful.push({ app, next, sent: lines.length - failed, failed, lost, damaged, atMs, why });
    this.#settle(this.#clock.now() - transport.doubtMs);
    if (this.#clock.now() - this.#savedMs >= saveEveryMs) await this.#save();
  }

  /** A connection that broke takes what was not certain with it. */
  #check(): void {
    const { transport } = this.#options;
    if (!transport.isBroken) this.#settle(this.#clock.now() - transport.doubtMs);
    else if (this.#doubtful.length > 0) throw new FlynnError('unavailable', 'the connection broke');
  }

  #settle(untilMs: number): void {
    const certain = this.#doubtful.filter(({ atMs }) => atMs <= untilMs);
    this.#doubtful = this.#doubtful.slice(certain.length);
    for (const { app, next, sent, failed, lost, damaged, atMs, why } of certain) {
      this.#state.positions[app] = next;
      this.#state.sent += sent;
      this.#state.failed += failed;
      this.#state.skipped += lost + damaged;
      if (failed > 0) this.#state.gaveUp = withMissed(this.#state.gaveUp, { count: failed, atMs, why });
      if (lost > 0) this.#state.lost = withMissed(this.#state.lost, { count: lost, atMs, why: noRoom });
      if (damaged > 0) this.#state.damaged = withMissed(this.#state.damaged, { count: damaged, atMs, why: notKept });
      this.#isDirty = true;
    }
  }

  #fails(error: string): void {
    this.#failing = { error, sinceMs: this.#failing?.sinceMs ?? this.#clock.now() };
  }

  #goBack(): void {
    this.#doubtful = [];
    this.#reading.clear();
  }

  async #save(): Promise<void> {
    if (!this.#isDirty) return;
    this.#isDirty = false;
    this.#savedMs = this.#clock.now();
    for (const app of Object.keys(this.#state.positions)) {
      if (this.#options.history.isRemoved(app)) delete this.#state.positions[app];
    }
    try {
      await this.#options.save(structuredClone(this.#state));
    } catch (error) {
      this.#isDirty = true;
      this.#options.log.warn({ drain: this.drain.id }, `how far a drain is could not be saved: ${messageOf(error)}`);
    }
  }
}

function missedOf({ count, atMs, why }: Missed) {
  return { count, at: new Date(atMs).toISOString(), why };
}
