/** What was seen lately, of counters that only rise and figures of a moment, as averages over a window. Nothing of it is stored. */

type Reading = Readonly<{ atMs: number; value: number }>;

/** From when on the readings are of the window; one before it stays, so that the whole of it is covered. */
function pruned(readings: readonly Reading[], fromMs: number): readonly Reading[] {
  return readings.slice(
    Math.max(
      0,
      readings.findLastIndex(({ atMs }) => atMs <= fromMs),
    ),
  );
}

export type CpuUse = Readonly<{
  /** Those whose use is known: they ran for half a window, and were heard of lately. */
  measured: number;
  /** Processors that these took together, on average. */
  cores: number;
}>;

/** How much processor time jobs take. */
export class CpuMeter {
  readonly #jobs = new Map<string, readonly Reading[]>();

  /** `seconds`: since its container's start. One that was started anew is a new job. */
  note(jobId: string, atMs: number, seconds: number, keepMs: number): void {
    const known = this.#jobs.get(jobId) ?? [];
    const isNew = (known.at(-1)?.value ?? 0) > seconds;
    this.#jobs.set(jobId, pruned([...(isNew ? [] : known), { atMs, value: seconds }], atMs - keepMs));
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

/** What one router counted for a type: requests that ended since its start, and those under way. */
export type RouterCount = Readonly<{ ended: number; active: number }>;

/** How many requests reach a type. */
export class RequestMeter {
  /** By router. Of one that said nothing for a while it is known what it had counted. */
  readonly #last = new Map<string, number>();
  #ended: readonly Reading[] = [];
  #active: readonly Reading[] = [];

  /** What the routers that answered have counted, one look later. */
  note(atMs: number, routers: ReadonlyMap<string, RouterCount>, keepMs: number): void {
    let ended = 0;
    let active = 0;
    for (const [router, count] of routers) {
      const before = this.#last.get(router);
      // One that was not there before may have counted for days; one that counted more was started anew.
      if (before !== undefined) ended += count.ended < before ? count.ended : count.ended - before;
      this.#last.set(router, count.ended);
      active += count.active;
    }
    this.#ended = pruned([...this.#ended, { atMs, value: ended }], atMs - keepMs);
    this.#active = pruned([...this.#active, { atMs, value: active }], atMs - keepMs);
  }

  /** Undefined until half a window was seen. */
  perSecond(nowMs: number, windowMs: number): number | undefined {
    const within = pruned(this.#ended, nowMs - windowMs);
    const spanMs = spanOf(within);
    if (spanMs < windowMs / 2) return undefined;
    // What ended before the first look is of the time before it.
    return within.slice(1).reduce((sum, { value }) => sum + value, 0) / (spanMs / 1_000);
  }

  /** Undefined until half a window was seen. */
  inFlight(nowMs: number, windowMs: number): number | undefined {
    const within = pruned(this.#active, nowMs - windowMs);
    if (spanOf(within) < windowMs / 2) return undefined;
    return within.reduce((sum, { value }) => sum + value, 0) / within.length;
  }
}

function spanOf(readings: readonly Reading[]): number {
  return (readings.at(-1)?.atMs ?? 0) - (readings[0]?.atMs ?? 0);
}
