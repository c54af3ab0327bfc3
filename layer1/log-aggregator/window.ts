/** The newest lines of something, in the order of their timestamps, within a bound of lines and memory. */
import type { Line } from './api.ts';

export type Limits = { lines: number; bytes: number };

export const windowLimits: Limits = { lines: 10_000, bytes: 8 * 1024 * 1024 };

/** What a line takes in memory, estimated from above: two bytes a character, and the object with its references. */
export function sizeOf(line: Line): number {
  const characters = line.message.length + line.timestamp.length + line.jobId.length + line.hostId.length;
  return 2 * (characters + line.processType.length) + 160;
}

/** `…00.12Z` comes before `…00.123Z`: without the Z, ISO 8601 in UTC sorts as text at any precision. */
function isAfter(a: Line, b: Line): boolean {
  return a.timestamp.slice(0, -1) > b.timestamp.slice(0, -1);
}

/**
 * INVARIANTS. Lines are in the order of their timestamps, equal ones in the order they came. No line is in it twice.
 * At most `limits`: the oldest go first, and what is not newer than a line that had to go does not come in any more, so
 * that an agent that sends its lines again cannot shuffle old ones back in.
 */
export class LineWindow {
  readonly #limits: Limits;
  readonly #lines: Line[] = [];
  #bytes = 0;
  #newestGone: Line | undefined;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get lines(): readonly Line[] {
    return this.#lines;
  }

  /** False if the line is there already or too old to be kept. */
  add(line: Line): boolean {
    if (this.#newestGone !== undefined && !isAfter(line, this.#newestGone)) return false;
    const at = this.#placeOf(line);
    for (let i = at - 1; i >= 0; i -= 1) {
      const other = this.#lines[i];
      if (other === undefined || other.timestamp !== line.timestamp) break;
      if (other.jobId === line.jobId && other.stream === line.stream && other.message === line.message) return false;
    }
    this.#lines.splice(at, 0, line);
    this.#bytes += sizeOf(line);
    this.#trim();
    return true;
  }

  /** After the last line that is not newer. Lines come almost in order, so the end is looked at first. */
  #placeOf(line: Line): number {
    let low = 0;
    let high = this.#lines.length;
    for (let middle = high - 1; low < high; middle = (low + high) >> 1) {
      const other = this.#lines[middle];
      if (other !== undefined && isAfter(other, line)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #trim(): void {
    // Some more than needed go at once, because taking from the front of an array moves the rest of it.
    if (this.#lines.length <= this.#limits.lines && this.#bytes <= this.#limits.bytes) return;
    const keepLines = Math.max(1, this.#limits.lines - Math.floor(this.#limits.lines / 64));
    const keepBytes = this.#limits.bytes - Math.floor(this.#limits.bytes / 64);
    let gone = 0;
    while (this.#lines.length - gone > keepLines || (this.#bytes > keepBytes && gone < this.#lines.length)) {
      const oldest = this.#lines[gone];
      if (oldest === undefined) break;
      this.#bytes -= sizeOf(oldest);
      this.#newestGone = oldest;
      gone += 1;
    }
    this.#lines.splice(0, gone);
  }
}
