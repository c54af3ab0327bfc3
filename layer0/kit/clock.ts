/** Time as a dependency, so that code that waits can be tested without waiting. */
import { setTimeout as delay } from 'node:timers/promises';
import { FlynnError } from './errors.ts';

export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`; rejects with `cancelled` (or the signal's own FlynnError) as soon as the signal aborts. */
  sleep(ms: number, options?: { signal?: AbortSignal }): Promise<void>;
};

export const systemClock: Clock = {
  now: () => Date.now(),
  async sleep(ms, { signal } = {}) {
    try {
      // A difference of two looks at a clock may be of a moment that has passed.
      await delay(Math.max(0, ms), undefined, signal === undefined ? {} : { signal });
    } catch (error) {
      throw signal?.aborted === true ? abortError(signal) : error;
    }
  },
};

/** Waits, until the signal aborts at the latest, which is no error here: for loops that look at their signal themselves. */
export async function pause(ms: number, signal: AbortSignal, clock: Pick<Clock, 'sleep'> = systemClock): Promise<void> {
  if (signal.aborted) return;
  try {
    await clock.sleep(ms, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The error an aborted wait ends with: the signal's own reason if it says more than "aborted". */
export function abortError(signal: AbortSignal): FlynnError {
  const reason: unknown = signal.reason;
  if (reason instanceof FlynnError) return reason;
  if (reason instanceof Error && reason.name === 'TimeoutError') {
    return new FlynnError('timeout', 'the deadline has passed', { cause: reason });
  }
  return new FlynnError('cancelled', 'the work was cancelled', { cause: reason });
}

type Sleeper = { dueMs: number; wake: () => void };

/** A clock that stands still until `advance` moves it; sleepers wake in the order they are due. */
export function fakeClock(startMs = 0): Clock & { advance(ms: number): Promise<void> } {
  let nowMs = startMs;
  const sleepers = new Set<Sleeper>();
  // Whoever woke, or is about to fall asleep, runs to its next wait before the clock goes on.
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

  return {
    now: () => nowMs,
    sleep(ms, { signal } = {}) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(abortError(signal));
        const cancel = () => {
          sleepers.delete(sleeper);
          if (signal !== undefined) reject(abortError(signal));
        };
        const sleeper: Sleeper = {
          dueMs: nowMs + ms,
          wake() {
            signal?.removeEventListener('abort', cancel);
            resolve();
          },
        };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', cancel, { once: true });
        return undefined;
      });
    },
    async advance(ms) {
      const untilMs = nowMs + ms;
      await settle();
      for (;;) {
        const [next] = [...sleepers].filter((s) => s.dueMs <= untilMs).sort((a, b) => a.dueMs - b.dueMs);
        if (next === undefined) break;
        sleepers.delete(next);
        nowMs = Math.max(nowMs, next.dueMs);
        next.wake();
        await settle();
      }
      nowMs = untilMs;
    },
  };
}
