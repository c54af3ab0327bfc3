/** What was seen lately, of counters that only rise and figures of a moment, as averages over a window. Nothing of it is stored. */

type At = Readonly<{ atMs: number }>;

/** So many readings a window has, roughly, however often it is looked. */
const readingsKept = 60;

/** From when on the readings are of the window; one before it stays, so that the whole of it is covered. */
function pruned<T extends At>(readings: readonly T[], fromMs: number): readonly T[] {
  return readings.slice(
    Math.max(
      0,
      readings.findLastIndex(({ atMs }) => atMs <= fromMs),
    ),
  );
}

/** Of totals: one that is close behind another says nothing that the next one does not. */
function withReading<T extends At>(readings: readonly T[], next: T, keepMs: number): readonly T[] {
  const [before, last] = [readings.at(-2), readings.at(-1)];
  const isClose = before !== undefined && last !== undefined && last.atMs - before.atMs < keepMs / readingsKept;
  return pruned([...(isClose ? readings.slice(0, -1) : readings), next], next.atMs - keepMs);
}

export type CpuUse = Readonly<{
  /** Those whose use is known: they ran for half a window, and were heard of lately. */
  measured: number;
  /** Processors that these took together, on average. */
  cores: number;
}>;

type Seconds = Readonly<{ atMs: number; value: number }>;

/** How much processor time jobs take. */
export class CpuMeter {
  readonly #jobs = new Map<string, readonly Seconds[]>();

  /** `seconds`: since its container's start. One that was started anew is a new job. */
  note(jobId: string, atMs: number, seconds: number, keepMs: number): void {
    const known = this.#jobs.get(jobId) ?? [];
    const isNew = (known.at(-1)?.value ?? 0) > seconds;
    this.#jobs.set(jobId, withReading(isNew ? [] : known, { atMs, value: seconds }, keepMs));
  }

  /** How many are held, of all jobs. */
  get readings(): number {
    return this.#jobs.values().reduce((sum, { length }) => sum + length, 0);
  }

  /** All others are forgotten. */
  keepOnly(jobIds: ReadonlySet<string>): void {
    for (const id of this.#jobs.keys()) if (!jobIds.has(id)) this.#jobs.delete(id);
  }

  /**
   * Over the time in which all of the measured ran: what one took before the others came to help is no work that is left.
   * `staleMs`: who was not heard of for so long is not measured.
   */
  use(jobIds: readonly string[], options: { nowMs: number; windowMs: number; staleMs: number }): CpuUse {
    const { nowMs, windowMs, staleMs } = options;
    const known = jobIds.flatMap((id) => {
      const within = pruned(this.#jobs.get(id) ?? [], nowMs - windowMs);
      const [first, last] = [within[0], within.at(-1)];
      if (first === undefined || last === undefined || nowMs - last.atMs > staleMs) return [];
      return last.atMs - first.atMs < windowMs / 2 ? [] : [{ within, first, last }];
    });
    const sinceMs = Math.max(...known.map(({ first }) => first.atMs));
    const cores = known.map(({ within, last }) => {
      const from = within.find(({ atMs }) => atMs >= sinceMs) ?? last;
      return last.atMs === from.atMs ? 0 : (last.value - from.value) / ((last.atMs - from.atMs) / 1_000);
    });
    return { measured: known.length, cores: cores.reduce((sum, one) => sum + one, 0) };
  }
}

/** What one router counted for one route since one beginning. */
export type RouteCount = Readonly<{
  /** Requests that ended and were somebody's work, or would have been. */
  ended: number;
  /** Requests that the router answered itself though they would have been somebody's work. */
  failed: number;
  /** Under way. */
  active: number;
}>;

/** By router, route, and when it began to count: figures of the same key can be compared. */
export type RouteCounts = ReadonlyMap<string, RouteCount>;

/** `isWhole`: there was no more. Else there was so much at least. */
export type Average = Readonly<{ value: number; isWhole: boolean }>;

/** A look in which more than this share of all requests failed says nothing of how much there is to do. */
const failedShare = 0.1;

type Requests = Readonly<{ atMs: number; ended: number; active: number; looks: number }>;

/**
 * How many requests reach a type.
 *
 * INVARIANTS. A request is counted once, in the look before which it ended, or not at all: what cannot be compared with the look
 * before counts as nothing, and then the look is not whole. Nor is an average over a window with such a look.
 */
export class RequestMeter {
  /** Of the last look; undefined before the first. */
  #before: RouteCounts | undefined;
  /** Totals since the first look: of `active` over all looks. */
  #readings: readonly Requests[] = [];
  #lastPartMs = -Infinity;

  /** How many are held. */
  get readings(): number {
    return this.#readings.length;
  }

  /** What the routers that answered have counted, one look later. `isWhole`: all of them answered. */
  note(atMs: number, counts: RouteCounts, { keepMs, isWhole }: { keepMs: number; isWhole: boolean }): void {
    const before = this.#before;
    this.#before = counts;
    // What left may have counted more until then: a router that makes room for another at its address, say.
    let isKnown = isWhole && [...(before?.keys() ?? [])].every((key) => counts.has(key));
    let [ended, failed, active] = [0, 0, 0];
    for (const [key, count] of counts) {
      active += count.active;
      const last = before?.get(key);
      if (last !== undefined && count.ended >= last.ended) {
        ended += count.ended - last.ended;
        failed += Math.max(0, count.failed - last.failed);
      } else if (before !== undefined) {
        // A route that came to lead here, a router that was away, a worker of one that died with its figures.
        isKnown = false;
      }
    }
    if (!isKnown || failed > failedShare * Math.max(ended, failed)) this.#lastPartMs = atMs;
    const last = this.#readings.at(-1) ?? { ended: 0, active: 0, looks: 0 };
    const next = { atMs, ended: last.ended + ended, active: last.active + active, looks: last.looks + 1 };
    this.#readings = withReading(this.#readings, next, keepMs);
  }

  /** No router answered. */
  miss(atMs: number): void {
    if (this.#before !== undefined) this.#before = new Map();
    this.#lastPartMs = atMs;
  }

  /** Undefined until half a window was seen. */
  perSecond(nowMs: number, windowMs: number): Average | undefined {
    return this.#average(nowMs, windowMs, (from, to) => (to.ended - from.ended) / ((to.atMs - from.atMs) / 1_000));
  }

  /** Undefined until half a window was seen. */
  inFlight(nowMs: number, windowMs: number): Average | undefined {
    return this.#average(nowMs, windowMs, (from, to) => (to.active - from.active) / (to.looks - from.looks));
  }

  #average(nowMs: number, windowMs: number, of: (from: Requests, to: Requests) => number): Average | undefined {
    const within = pruned(this.#readings, nowMs - windowMs);
    const [from, to] = [within[0], within.at(-1)];
    if (from === undefined || to === undefined || to.atMs - from.atMs < windowMs / 2) return undefined;
    return { value: of(from, to), isWhole: this.#lastPartMs <= nowMs - windowMs };
  }
}
