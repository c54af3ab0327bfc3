/** How long containers have been running, whatever is done to the machine's clock meanwhile. */
import { systemClock } from '@flynn/kit/clock';
import type { Container } from '../engine/engine.ts';

type Sighting = { startedAtMs: number | undefined; seenMs: number; ageMs: number };

export class RunningTimes {
  readonly #sightings = new Map<string, Sighting>();

  /** The wall clock is asked once for each run, when it is first seen. */
  ageMsOf({ id, startedAtMs }: Container): number {
    const nowMs = performance.now();
    const known = this.#sightings.get(id);
    if (known !== undefined && known.startedAtMs === startedAtMs) return known.ageMs + nowMs - known.seenMs;
    const ageMs = startedAtMs === undefined ? 0 : Math.max(0, systemClock.now() - startedAtMs);
    this.#sightings.set(id, { startedAtMs, seenMs: nowMs, ageMs });
    return ageMs;
  }

  keepOnly(containerIds: ReadonlySet<string>): void {
    for (const id of this.#sightings.keys()) if (!containerIds.has(id)) this.#sightings.delete(id);
  }
}
