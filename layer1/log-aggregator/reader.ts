/** One reader's view of an app's lines: a bounded buffer between lines that come and a connection that takes them. */
import type { Line } from './api.ts';
import { sizeOf } from './window.ts';
import type { Limits } from './window.ts';

export type Filter = {
  jobId?: string | undefined;
  processType?: string | undefined;
  streams?: ReadonlySet<string> | undefined;
};

export function fits(line: Line, filter: Filter): boolean {
  return (
    (filter.jobId === undefined || line.jobId === filter.jobId) &&
    (filter.processType === undefined || line.processType === filter.processType) &&
    (filter.streams === undefined || filter.streams.has(line.stream))
  );
}

/**
 * INVARIANTS. Holds at most one window. Of a reader that is too slow the oldest waiting lines are left out, and in their
 * place it gets one line that says how many.
 */
export class LineReader {
  readonly #limits: Limits;
  #waiting: Line[] = [];
  #bytes = 0;
  #missed = 0;
  #lastMissed: Line | undefined;
  #hasEnded = false;
  #isNudged = false;
  #wake: (() => void) | undefined;
  readonly filter: Filter;

  constructor(filter: Filter, limits: Limits) {
    this.filter = filter;
    this.#limits = limits;
  }

  push(line: Line): void {
    if (this.#hasEnded || !fits(line, this.filter)) return;
    this.#waiting.push(line);
    this.#bytes += sizeOf(line);
    if (this.#waiting.length > this.#limits.lines || this.#bytes > this.#limits.bytes) this.#leaveOutHalf();
    this.#wake?.();
  }

  end(): void {
    this.#hasEnded = true;
    this.#wake?.();
  }

  /** The next batch comes even if it is empty. */
  nudge(): void {
    this.#isNudged = true;
    this.#wake?.();
  }

  /** Half at once: one notice for many lines, instead of one for each. */
  #leaveOutHalf(): void {
    const gone = this.#waiting.splice(0, Math.ceil(this.#waiting.length / 2));
    for (const line of gone) this.#bytes -= sizeOf(line);
    this.#missed += gone.length;
    this.#lastMissed = gone.at(-1);
  }

  #take(): Line[] {
    const notice = this.#lastMissed === undefined ? [] : [gapNotice(this.#lastMissed, this.#missed)];
    const lines = [...notice, ...this.#waiting];
    this.#waiting = [];
    this.#bytes = 0;
    this.#missed = 0;
    this.#lastMissed = undefined;
    return lines;
  }

  /** What waits, as often as something does, nothing after a nudge; ends after `end()` once everything was taken. */
  async *batches(): AsyncGenerator<Line[]> {
    for (;;) {
      const lines = this.#take();
      if (lines.length > 0 || this.#isNudged) {
        this.#isNudged = false;
        yield lines;
      } else if (this.#hasEnded) return;
      else {
        const woken = Promise.withResolvers<void>();
        this.#wake = woken.resolve;
        await woken.promise;
        this.#wake = undefined;
      }
    }
  }
}

function gapNotice(last: Line, missed: number): Line {
  const message = `${missed} ${missed === 1 ? 'line was' : 'lines were'} left out here: this reader is slower than the app writes`;
  return { jobId: '', hostId: '', processType: '', stream: 'init', timestamp: last.timestamp, message };
}
