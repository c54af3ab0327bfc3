/** Keeps tasks going: one that ends or fails is started again, ever later while it dies young. */
import { systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { TaskGroup } from '@flynn/kit/tasks';

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

/** What runs until its signal aborts. */
export type Supervised = Readonly<{ name: string; run: (signal: AbortSignal) => Promise<void> }>;

/** Side by side: one that fails stops no other. Resolves when the signal has aborted and every task has ended. */
export async function superviseAll(tasks: readonly Supervised[], options: SuperviseOptions): Promise<void> {
  await using group = new TaskGroup({ signal: options.signal });
  for (const { name, run } of tasks) group.run(name, (signal) => supervise(name, run, { ...options, signal }));
  await group.done();
}

/** Resolves when the signal has aborted and the task has ended. What a run gets aborts when that run has ended, too. */
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
    const over = new AbortController();
    try {
      await task(AbortSignal.any([signal, over.signal]));
    } catch (error) {
      failure = error;
    }
    // What it left behind must not go on beside what the next run begins.
    over.abort();
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
