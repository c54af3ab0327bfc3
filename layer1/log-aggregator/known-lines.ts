/** Which of the lines that are sent again are in an app's log already. */
import { FlynnError } from '@flynn/kit/errors';
import { Slots } from '@flynn/kit/slots';
import type { AppLog } from './app-log.ts';
import type { Sending } from './api.ts';
import { linesOf, timestampOf } from './filter.ts';
import { type Fingerprint, Fingerprints, fingerprintOf } from './fingerprints.ts';
import type { History } from './history.ts';

/** Of a log's end: an agent sends at most 1,000 lines of each job again. */
const rememberedLines = 20_000;
const rememberedBytes = 16 * 1024 * 1024;
/** Of all logs together, beside those that are compared with right now: 20 to 33 MB, and the ends of 75 logs. */
const defaultMaxHeld = 1_500_000;

/** A job has one line of a stream at a time, but for what the agent itself says: as it is kept, up to its message. */
function identityOf(line: Buffer): Fingerprint {
  return fingerprintOf(line.subarray(0, 300));
}

type Part = { readonly identities: Fingerprints; oldest: string | undefined };

function emptyPart(): Part {
  return { identities: new Fingerprints(), oldest: undefined };
}

function addTo(part: Part, line: Buffer): void {
  part.identities.add(identityOf(line));
  const timestamp = timestampOf(line);
  // What a disk damaged has none.
  if (timestamp !== '' && (part.oldest === undefined || timestamp < part.oldest)) part.oldest = timestamp;
}

/**
 * What a log ends with, and from then on what is written to it, until `leave`. A replay brings old lines of which the log may
 * have kept, and lost, far more: of those older than what is remembered none is new.
 */
export class KnownLines {
  /** Once the newer one is full it takes the place of the older: so the newest lines are always in one of them. */
  #older = emptyPart();
  #newer = emptyPart();
  #isCut = false;
  #leave: () => void = () => undefined;

  static async read(log: AppLog): Promise<KnownLines> {
    const known = new KnownLines();
    // What is written while the rest is read is known too.
    known.#leave = log.onWritten((lines) => lines.forEach((line) => known.#addWritten(line)));
    try {
      await known.#readEnd(log);
    } catch (error) {
      known.leave();
      throw error;
    }
    return known;
  }

  async #readEnd(log: AppLog): Promise<void> {
    const older = this.#older;
    let isCut = log.start.byte > 0;
    let lines = 0;
    let bytes = 0;
    for await (const block of log.readBackwards(log.end)) {
      for (const line of linesOf(block.bytes)) addTo(older, line);
      lines += block.next.line - block.from.line;
      bytes += block.bytes.length;
      isCut = block.from.byte > 0;
      if (lines >= rememberedLines || bytes >= rememberedBytes) break;
    }
    this.#isCut ||= isCut;
  }

  #addWritten(line: Buffer): void {
    if (this.#newer.identities.size >= rememberedLines) {
      // What the older one has is known no longer.
      if (this.#older.identities.size > 0) this.#isCut = true;
      this.#older = this.#newer;
      this.#newer = emptyPart();
    }
    addTo(this.#newer, line);
  }

  get size(): number {
    return this.#older.identities.size + this.#newer.identities.size;
  }

  leave(): void {
    this.#leave();
  }

  /** Those that are not in the log, each once. */
  newOf(lines: readonly Buffer[], mode: Exclude<Sending, 'fresh'>): Buffer[] {
    const parts = [this.#older, this.#newer];
    const [oldest] = this.#isCut && mode === 'replay' ? parts.flatMap((part) => part.oldest ?? []).sort() : [];
    const taken = new Fingerprints();
    return lines.filter((line) => {
      if (oldest !== undefined && timestampOf(line) < oldest) return false;
      const identity = identityOf(line);
      if (taken.has(identity) || parts.some(({ identities }) => identities.has(identity))) return false;
      taken.add(identity);
      return true;
    });
  }
}

/** `turn`: of those who compare with a log one does until what is new of it is written, or two would find the same line new. */
type Held = { readonly turn: Slots; known?: KnownLines };

/**
 * What the logs end with that lines are sent again for. It is read for the first who sends some, and held for as long as
 * anybody does, or waits to: after a restart all hosts send those of the same apps.
 */
export class KnownLogs {
  readonly #history: History;
  readonly #maxHeld: number;
  readonly #held = new Map<AppLog, Held>();
  #users = 0;

  constructor(history: History, { maxHeld = defaultMaxHeld }: { maxHeld?: number } = {}) {
    this.#history = history;
    this.#maxHeld = maxHeld;
  }

  /** Lines that are held. */
  get size(): number {
    return [...this.#held.values()].reduce((sum, { known }) => sum + (known?.size ?? 0), 0);
  }

  /** What is read for one is held for the others until the last of them has ended. */
  async share<T>(task: () => Promise<T>): Promise<T> {
    this.#users += 1;
    try {
      return await task();
    } finally {
      this.#users -= 1;
      if (this.#users === 0) this.#forgetAll();
    }
  }

  /** Resolves once those that the app's log has not got are in its file: how many there were. */
  async append(
    app: string,
    lines: readonly Buffer[],
    { mode, signal }: { mode: Exclude<Sending, 'fresh'>; signal: AbortSignal },
  ): Promise<number> {
    const log = await this.#history.app(app);
    const held = this.#held.get(log) ?? { turn: new Slots(1) };
    this.#held.set(log, held);
    const task = async () => {
      held.known ??= await KnownLines.read(log);
      // What a request that broke off left on its way.
      await log.settled();
      // Reading takes its time: whoever sent these may be sending them to another by now.
      if (signal.aborted) throw new FlynnError('cancelled', 'the agent went away, or this log aggregator stops');
      const wanted = held.known.newOf(lines, mode);
      await this.#history.append(app, wanted);
      return wanted.length;
    };
    try {
      return await held.turn.run(task, { signal });
    } finally {
      this.#makeRoom(log, held);
    }
  }

  /** What was used last goes: hosts ask for the same apps in turn, and if each made room for the next all would be read anew. */
  #makeRoom(log: AppLog, { turn, known }: Held): void {
    if (turn.isFull || this.size <= this.#maxHeld) return;
    known?.leave();
    this.#held.delete(log);
  }

  #forgetAll(): void {
    for (const { known } of this.#held.values()) known?.leave();
    this.#held.clear();
  }
}
