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

/** What one router counted for one route. */
export type RouteCount = Readonly<{
  /** Requests that ended and were somebody's work, or would have been. */
  ended: number;
  /** Requests that the router answered itself though they would have been somebody's work. */
  failed: number;
  /** Under way. */
  active: number;
  /** When it began to count; of a router of several processes, the first of them that has a request. */
  sinceMs: number;
}>;

/** By router, those of nothing among them, and route. */
export type RouteCounts = ReadonlyMap<string, ReadonlyMap<string, RouteCount>>;

/** `part`: something could not be compared with the look before, or did not answer. `failures`: too many failed. */
export type Doubt = 'part' | 'failures';

/** So much there was at least, and at most; with a doubt there may have been any more. */
export type Average = Readonly<{ value: number; most: number; doubt: Doubt | undefined }>;

/** Where more than this share of a window's requests failed, nobody knows how many there would be … */
const failedShare = 0.1;
/** … but so few fail now and then anywhere. */
const fewFailed = 2;

/** Totals since the first look: `most` with what may have ended before the look before it, `active` over all looks. */
type Requests = Readonly<{ atMs: number; ended: number; most: number; failed: number; active: number; looks: number }>;

/**
 * How many requests reach a type.
 *
 * INVARIANTS. A request is counted once, in the look before which it ended, or not at all. What a router counted of a route for
 * which it had nothing at the look before is the most that there can have been, and counts as nothing for the least. All else that
 * cannot be compared counts as nothing, and then the look is in part; nor is an average known over a window with such a look.
 */
export class RequestMeter {
  /** Of the last look; undefined before the first. */
  #before: RouteCounts | undefined;
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
    const since = before === undefined ? nothing : sinceBefore(before, counts);
    if (!isWhole || !since.isKnown) this.#lastPartMs = atMs;
    const last = this.#readings.at(-1) ?? { ended: 0, most: 0, failed: 0, active: 0, looks: 0 };
    const next = {
      atMs,
      ended: last.ended + since.ended,
      most: last.most + since.most,
      failed: last.failed + since.failed,
      active: last.active + activeOf(counts),
      looks: last.looks + 1,
    };
    this.#readings = withReading(this.#readings, next, keepMs);
  }

  /** No router answered. */
  miss(atMs: number): void {
    if (this.#before !== undefined) this.#before = new Map();
    this.#lastPartMs = atMs;
  }

  /** Undefined until half a window was seen. */
  perSecond(nowMs: number, windowMs: number): Average | undefined {
    return this.#average(nowMs, windowMs, (from, to) => {
      const seconds = (to.atMs - from.atMs) / 1_000;
      return { value: (to.ended - from.ended) / seconds, most: (to.most - from.most) / seconds };
    });
  }

  /** Undefined until half a window was seen. */
  inFlight(nowMs: number, windowMs: number): Average | undefined {
    return this.#average(nowMs, windowMs, (from, to) => {
      const value = (to.active - from.active) / (to.looks - from.looks);
      return { value, most: value };
    });
  }

  #average(
    nowMs: number,
    windowMs: number,
    of: (from: Requests, to: Requests) => Omit<Average, 'doubt'>,
  ): Average | undefined {
    const within = pruned(this.#readings, nowMs - windowMs);
    const [from, to] = [within[0], within.at(-1)];
    if (from === undefined || to === undefined || to.atMs - from.atMs < windowMs / 2) return undefined;
    const failed = to.failed - from.failed;
    const isFailing = failed > Math.max(fewFailed, failedShare * (to.most - from.most));
    const isPart = this.#lastPartMs > nowMs - windowMs;
    return { ...of(from, to), doubt: isPart ? 'part' : isFailing ? 'failures' : undefined };
  }
}

function activeOf(counts: RouteCounts): number {
  const routes = counts.values().flatMap((each) => each.values());
  return routes.reduce((sum, { active }) => sum + active, 0);
}

const nothing = { ended: 0, most: 0, failed: 0, isKnown: true };

/** What came since the look before. */
function sinceBefore(before: RouteCounts, counts: RouteCounts): typeof nothing {
  const since = { ...nothing };
  // What left may have counted more until then: a router that makes room for another at its address, say.
  for (const [router, routes] of before) {
    since.isKnown &&= [...routes.keys()].every((route) => counts.get(router)?.has(route));
  }
  for (const [router, routes] of counts) {
    const known = before.get(router);
    // It was away, or was not there.
    since.isKnown &&= known !== undefined;
    for (const [route, count] of known === undefined ? [] : routes) {
      const last = known?.get(route);
      const ended = count.ended - (last?.ended ?? 0);
      if (ended < 0 || (last !== undefined && last.sinceMs < count.sinceMs)) {
        // Another router at its address, or a worker of it died with its figures.
        since.isKnown = false;
        continue;
      }
      // Its first request, or one that came to lead here with all it ever counted; or a process that began before has its first.
      if (last?.sinceMs === count.sinceMs) since.ended += ended;
      since.most += ended;
      since.failed += Math.max(0, count.failed - (last?.failed ?? 0));
    }
  }
  return since;
}
