/** Which lines of a log that is followed were told, and what is asked for where it is gone on with. */
import { type Line, type ReadOptions, defaultLines, maxLines } from '@flynn/log-aggregator/api';

/** Lines of several hosts do not come in the order of their times: so far back the log is read again. */
const overlapMs = 60_000;

/** INVARIANT. What is asked for again reaches back to the last line that was told, and to none that was not wanted at first. */
export class Told {
  readonly #query: ReadOptions;
  /** This machine's clock. */
  readonly #now: () => number;
  readonly #begunMs: number;
  /** In the order they were told; those that may come again. */
  readonly #texts = new Set<string>();
  #newest: string;
  #count = 0;
  #oldestMs = Infinity;

  constructor(query: ReadOptions, now: () => number) {
    this.#query = query;
    this.#now = now;
    this.#begunMs = now();
    this.#newest = query.since ?? '';
  }

  has(json: string): boolean {
    return this.#texts.has(json);
  }

  /** `line`: undefined for one that cannot be read. */
  add(json: string, line: Line | undefined): void {
    this.#texts.add(json);
    for (const oldest of this.#texts) {
      if (this.#texts.size <= maxLines) break;
      this.#texts.delete(oldest);
    }
    if (line === undefined) return;
    if (line.timestamp > this.#newest) this.#newest = line.timestamp;
    if (this.#count === this.#wanted) return;
    this.#count += 1;
    this.#oldestMs = Math.min(this.#oldestMs, Date.parse(line.timestamp));
  }

  get #wanted(): number {
    return this.#query.lines ?? defaultLines;
  }

  /** Until then all was told; undefined before anything was. A host's clock may have been ahead: nothing is newer than now. */
  get reached(): string | undefined {
    return this.#texts.size === 0 || this.#newest === '' ? undefined : this.#upToNow(this.#newest);
  }

  /** Of nothing that was told all there is now is new. */
  next(): ReadOptions {
    const again = { ...this.#query, lines: maxLines };
    const since = this.#since();
    return since === undefined ? again : { ...again, since };
  }

  #since(): string | undefined {
    const { since } = this.#query;
    const begin = since === undefined ? [] : [Date.parse(since)];
    if (this.#newest === '') return this.#wanted === 0 ? isoOf(this.#begunMs) : undefined;
    const reachedMs = Date.parse(this.#upToNow(this.#newest));
    // Who has as many as were asked for may have been spared older ones.
    const isCut = this.#count > 0 && this.#count === this.#wanted;
    const cut = this.#wanted === 0 ? [this.#begunMs] : isCut ? [Math.min(this.#oldestMs, reachedMs)] : [];
    return isoOf(Math.max(reachedMs - overlapMs, ...begin, ...cut));
  }

  #upToNow(timestamp: string): string {
    const latest = isoOf(this.#now());
    return timestamp < latest ? timestamp : latest;
  }
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}
