/** Tells controllers what was counted for apps: each asks by itself, all at the same moments. */
import { randomUUID } from 'node:crypto';
import type { RouterCounts } from '@flynn/controller/routes/app-stats';
import type { Voice } from './server.ts';

/** All who ask within it get the same. */
const keptMs = 1_000;

export class AppTeller {
  readonly #voice: Pick<Voice, 'appCounts'>;
  readonly #nowMs: () => number;
  readonly #instance = randomUUID();
  #last: Readonly<{ atMs: number; told: Promise<RouterCounts> }> | undefined;

  /** `nowMs`: of a clock that is never set. */
  constructor(voice: Pick<Voice, 'appCounts'>, nowMs = () => performance.now()) {
    this.#voice = voice;
    this.#nowMs = nowMs;
  }

  async tell(): Promise<RouterCounts> {
    const atMs = this.#nowMs();
    if (this.#last !== undefined && atMs - this.#last.atMs < keptMs) return this.#last.told;
    const last = { atMs, told: this.#count(atMs) };
    this.#last = last;
    // What failed is not kept.
    last.told.catch(() => {
      if (this.#last === last) this.#last = undefined;
    });
    return last.told;
  }

  async #count(atMs: number): Promise<RouterCounts> {
    const { apps } = await this.#voice.appCounts([]);
    return { instance: this.#instance, atMs, apps };
  }
}
