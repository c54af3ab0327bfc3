/** Every app's newest lines, and the readers that follow them. */
import type { Line } from './api.ts';
import { LineReader, fits } from './reader.ts';
import type { Filter } from './reader.ts';
import { LineWindow, windowLimits } from './window.ts';
import type { Limits } from './window.ts';

/** What an app costs besides its lines. */
const appBytes = 1_000;

/**
 * INVARIANTS. Memory is at most `totalBytes` for buffers, plus one window for each reader. The app whose buffer was
 * longest neither written nor read loses its buffer first; its followers stay.
 */
export class LogBuffers {
  readonly #window: Limits;
  readonly #totalBytes: number;
  /** In the order of their last use. */
  readonly #apps = new Map<string, LineWindow>();
  readonly #readers = new Map<string, Set<LineReader>>();
  #bytes = 0;

  constructor(options: { window?: Limits; totalBytes?: number } = {}) {
    this.#window = options.window ?? windowLimits;
    this.#totalBytes = options.totalBytes ?? 256 * 1024 * 1024;
  }

  get stats(): { apps: number; bytes: number; readers: number } {
    const readers = [...this.#readers.values()].reduce((sum, set) => sum + set.size, 0);
    return { apps: this.#apps.size, bytes: this.#bytes, readers };
  }

  /** False if the line was there already. */
  add(app: string, line: Line): boolean {
    const window = this.#apps.get(app) ?? new LineWindow(this.#window);
    const before = this.#apps.has(app) ? window.bytes : -appBytes;
    const isNew = window.add(line);
    this.#bytes += window.bytes - before;
    this.#touch(app, window);
    this.#evict(app);
    if (isNew) for (const reader of this.#readers.get(app) ?? []) reader.push(line);
    return isNew;
  }

  /** The newest `lines` lines (all there are, unless given) that fit; a follower gets those to come as well. */
  open(app: string, options: { filter: Filter; lines?: number | undefined; follow: boolean }): LineReader {
    const { filter, lines = Infinity, follow } = options;
    const reader = new LineReader(filter, this.#window);
    const window = this.#apps.get(app);
    if (window !== undefined) this.#touch(app, window);
    for (const line of newest(window?.lines ?? [], filter, lines)) reader.push(line);
    if (!follow) {
      reader.end();
      return reader;
    }
    const readers = this.#readers.get(app) ?? new Set();
    this.#readers.set(app, readers.add(reader));
    return reader;
  }

  close(app: string, reader: LineReader): void {
    reader.end();
    const readers = this.#readers.get(app);
    readers?.delete(reader);
    if (readers?.size === 0) this.#readers.delete(app);
  }

  #touch(app: string, window: LineWindow): void {
    this.#apps.delete(app);
    this.#apps.set(app, window);
  }

  #evict(keep: string): void {
    for (const [app, window] of this.#apps) {
      if (this.#bytes <= this.#totalBytes || app === keep) return;
      this.#apps.delete(app);
      this.#bytes -= window.bytes + appBytes;
    }
  }
}

function newest(lines: readonly Line[], filter: Filter, count: number): Line[] {
  const found: Line[] = [];
  for (let i = lines.length - 1; i >= 0 && found.length < count; i -= 1) {
    const line = lines[i];
    if (line !== undefined && fits(line, filter)) found.push(line);
  }
  return found.toReversed();
}
