/**
 * Of what comes again and again, which has a line of its own? The first few of each kind within a time; of the others there is how
 * many they were, told with the last of these once the time is over.
 */
type Window<T> = { readonly sinceMs: number; lines: number; last: T; others: number; timer?: NodeJS.Timeout };

type Options<T> = Readonly<{
  windowMs: number;
  /** How many kinds are known at most: beyond that the oldest begins anew. */
  maxKinds: number;
  /** `count`: it and those after it. */
  tell: (one: T, count: number) => void;
}>;

export class Repeats<T> {
  readonly #options: Options<T>;
  readonly #windows = new Map<string, Window<T>>();

  constructor(options: Options<T>) {
    this.#options = options;
  }

  hasOwnLine(kind: string, one: T, { lines, nowMs }: { lines: number; nowMs: number }): boolean {
    const { windowMs, maxKinds } = this.#options;
    const known = this.#windows.get(kind);
    // A clock that was put back keeps nobody silent.
    if (known === undefined || Math.abs(nowMs - known.sinceMs) >= windowMs) {
      this.#end(kind);
      if (this.#windows.size >= maxKinds) for (const oldest of this.#windows.keys().take(1)) this.#end(oldest);
      this.#windows.set(kind, { sinceMs: nowMs, lines: 1, last: one, others: 0 });
      return true;
    }
    if (known.lines < lines) {
      known.lines += 1;
      known.last = one;
      return true;
    }
    known.others += 1;
    const leftMs = Math.min(windowMs, windowMs - (nowMs - known.sinceMs));
    known.timer ??= setTimeout(() => this.#end(kind), leftMs).unref();
    return false;
  }

  /** Tells of all that is not told yet. */
  end(): void {
    for (const kind of this.#windows.keys()) this.#end(kind);
  }

  #end(kind: string): void {
    const window = this.#windows.get(kind);
    if (window === undefined) return;
    this.#windows.delete(kind);
    clearTimeout(window.timer);
    if (window.others > 0) this.#options.tell(window.last, window.others + 1);
  }
}
