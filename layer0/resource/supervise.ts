/** Keeps a task going: one that ends or fails is started again, ever later while it dies young. */
import { systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';

const minPauseMs = 500;
const maxPauseMs = 60_000;
/** Whoever lived this long has got over what killed it before. */
const youngMs = 2_000;

export type SuperviseOptions = {
  signal: AbortSignal;
  log: Logger;
  clock?: Clock;
  /** From 0 up to but not including 1. */
  random?: () => number;
};

/** Resolves when the signal has aborted and the task has ended. */
export async function supervise(
  name: string,
  task: (signal: AbortSignal) => Promise<void>,
  options: SuperviseOptions,
): Promise<void> {
  const { signal, log, clock = systemClock, random = Math.random } = options;
  let deaths = 0;
  while (!signal.aborted) {
    const startedMs = clock.now();
    let failure: unknown;
    try {
      await task(signal);
    } catch (error) {
      failure = error;
    }
    if (signal.aborted) return;
    const livedMs = clock.now() - startedMs;
    deaths = livedMs < youngMs ? deaths + 1 : 1;
    const pauseMs = restartPauseMs(deaths, random);
    log.warn({ err: failure, task: name, livedMs, pauseMs }, `${name} ended, it is started again in ${pauseMs} ms`);
    await clock.sleep(pauseMs, { signal }).catch((wake: unknown) => {
      if (!signal.aborted) throw wake;
    });
  }
}

/** 0.5 s after the first death, doubling up to a minute, give or take a quarter. */
export function restartPauseMs(deaths: number, random: () => number): number {
  const fullMs = Math.min(maxPauseMs, minPauseMs * 2 ** Math.min(deaths - 1, 20));
  return Math.round(fullMs * (0.75 + random() / 2));
}
