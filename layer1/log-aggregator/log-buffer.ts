/** What was written last, for those who follow: one writer, many readers, none of whom can hold up the writer. */

export type WindowLimits = { entries: number; bytes: number };

export const windowLimits: WindowLimits = { entries: 5_248, bytes: 512 * 1024 };

/** Entries in the order they were written; `first` is the number of the first, counted from the buffer's beginning. */
class Window<T> {
  readonly first: number;
  readonly entries: T[] = [];
  bytes = 0;

  constructor(first: number) {
    this.first = first;
  }

  get next(): number {
    return this.first + this.entries.length;
  }
}

export type Batch<T> = Readonly<{
  entries: readonly T[];
  /** How many entries were passed over before these, because the reader was too slow for them. */
  skipped: number;
}>;

/**
 * INVARIANTS. The buffer keeps one window and each reader at most one: a window that is full is let go, and lives for as
 * long as a reader is in it. A reader that has come to the end of such a window goes on at the newest, and is told how
 * many entries it missed. Writing never waits.
 */
export class LogBuffer<T> {
  readonly #limits: WindowLimits;
  readonly #sizeOf: (entry: T) => number;
  readonly #waiting = new Set<() => void>();
  #window = new Window<T>(0);
  #isClosed = false;

  constructor(options: { sizeOf: (entry: T) => number; limits?: WindowLimits }) {
    this.#sizeOf = options.sizeOf;
    this.#limits = options.limits ?? windowLimits;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get window(): Window<T> {
    return this.#window;
  }

  /** After the end nothing is taken any more. */
  write(entries: readonly T[]): void {
    if (this.#isClosed) return;
    for (const entry of entries) {
      const { entries: held, bytes, next } = this.#window;
      if (held.length >= this.#limits.entries || bytes >= this.#limits.bytes) this.#window = new Window(next);
      this.#window.entries.push(entry);
      this.#window.bytes += this.#sizeOf(entry);
    }
    this.#wake();
  }

  /** Begins `history` entries back, as far as they are in the window; without it at the window's beginning. */
  open(options: { history?: number } = {}): LogReader<T> {
    return new LogReader(this, Math.max(0, this.#window.entries.length - (options.history ?? Infinity)));
  }

  /** Readers get what is there, and then the end. Safe to call again. */
  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  /** Resolves at the next write, at the end, or when the returned function is called. */
  wait(): { woken: Promise<void>; leave: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiting.delete(leave);
      resolve();
    };
    this.#waiting.add(leave);
    return { woken: promise, leave };
  }

  #wake(): void {
    for (const leave of this.#waiting) leave();
  }
}

/** One reader's place in a buffer. */
export class LogReader<T> {
  readonly #buffer: LogBuffer<T>;
  #window: Window<T>;
  #at: number;
  #isCancelled = false;
  #isNudged = false;
  #leave: (() => void) | undefined;

  constructor(buffer: LogBuffer<T>, at: number) {
    this.#buffer = buffer;
    this.#window = buffer.window;
    this.#at = at;
  }

  /** What is there, at most `max` entries, without waiting; none if there is nothing. */
  read(max: number): Batch<T> {
    let skipped = 0;
    if (this.#isCancelled) return { entries: [], skipped };
    if (this.#at >= this.#window.entries.length && this.#window !== this.#buffer.window) {
      skipped = this.#buffer.window.first - this.#window.next;
      this.#window = this.#buffer.window;
      this.#at = 0;
    }
    const entries = this.#window.entries.slice(this.#at, this.#at + max);
    this.#at += entries.length;
    return { entries, skipped };
  }

  /** The same, once there is something; nothing after a nudge; undefined at the end, or once the signal aborts. */
  async next(max: number, options: { signal?: AbortSignal } = {}): Promise<Batch<T> | undefined> {
    const { signal } = options;
    const onAbort = () => this.#leave?.();
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      for (;;) {
        if (this.#isCancelled || signal?.aborted === true) return undefined;
        const isLast = this.#buffer.isClosed;
        const batch = this.read(max);
        if (batch.entries.length > 0 || batch.skipped > 0 || this.#isNudged) {
          this.#isNudged = false;
          return batch;
        }
        if (isLast) return undefined;
        const { woken, leave } = this.#buffer.wait();
        this.#leave = leave;
        await woken;
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Whoever waits gets an empty batch. */
  nudge(): void {
    this.#isNudged = true;
    this.#leave?.();
  }

  /** Ends the reading, also of who waits; lets go of the window. */
  cancel(): void {
    this.#isCancelled = true;
    this.#window = new Window(0);
    this.#leave?.();
  }
}
