/** Fetches and clones: so many at a time, each while its client takes what it asked for. */
import { withDeadline } from '@flynn/kit/retry';
import { Slots } from '@flynn/kit/slots';
import type { ServerChannel } from 'ssh2';
import { minutesText, refuse, runOn, tell } from './channel.ts';

/** Each has a git that packs, in memory. */
export const maxFetches = 8;
/** A large repository over a slow line; who takes a little now and then has no place for ever. */
const fetchDeadlineMs = 2 * 3_600_000;
/** While it packs git sends something every few seconds. */
const usualStallMs = 2 * 60_000;
const usualLimitMs = 30 * 60_000;
const stillMs = 60_000;

/** How long one waits for others, how often it is told, and how long a client may take nothing. */
export type FetchTimes = { limitMs?: number; tellMs?: number; stallMs?: number };

/** INVARIANT. A place is free again once its git has ended, whatever its client does. */
export class Fetches {
  readonly #places = new Slots(maxFetches);
  readonly #times: FetchTimes;

  constructor(times: FetchTimes = {}) {
    this.#times = times;
  }

  /** Its exit code. */
  async serve(
    channel: ServerChannel,
    repository: string,
    { env, signal }: { env: Record<string, string>; signal: AbortSignal },
  ): Promise<number> {
    const { limitMs = usualLimitMs, tellMs = stillMs } = this.#times;
    const others = `${maxFetches} other fetches are under way`;
    if (this.#places.isFull) tell(channel, `${others}: waiting for one of them to end.`);
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), limitMs);
    const telling = setInterval(
      () => tell(channel, `Still waiting for one of ${maxFetches} other fetches to end.`),
      tellMs,
    );
    const endWaiting = () => {
      clearTimeout(timer);
      clearInterval(telling);
    };
    let hasBegun = false;
    const fetch = () => {
      hasBegun = true;
      endWaiting();
      return this.#fetch(channel, repository, { env, signal });
    };
    try {
      return await this.#places.run(fetch, { signal: AbortSignal.any([signal, late.signal]) });
    } catch (error) {
      if (hasBegun || !late.signal.aborted) throw error;
      return refuse(channel, `${others}, and none has ended in ${minutesText(limitMs)}: try again later.`);
    } finally {
      endWaiting();
    }
  }

  async #fetch(
    channel: ServerChannel,
    repository: string,
    { env, signal }: { env: Record<string, string>; signal: AbortSignal },
  ): Promise<number> {
    const { stallMs = usualStallMs } = this.#times;
    const stalled = new AbortController();
    const timer = setTimeout(() => stalled.abort(), stallMs);
    const limited = withDeadline(fetchDeadlineMs, AbortSignal.any([signal, stalled.signal]));
    try {
      const args = ['upload-pack', '--strict', repository];
      const code = await runOn(channel, args, { env, onProgress: () => timer.refresh(), signal: limited });
      if (!limited.aborted || signal.aborted) return code;
      const why = stalled.signal.aborted
        ? `nothing was taken, nor asked for, in ${minutesText(stallMs)}`
        : `this was not done in ${minutesText(fetchDeadlineMs)}`;
      return refuse(channel, `${why}: try again.`);
    } finally {
      clearTimeout(timer);
    }
  }
}
