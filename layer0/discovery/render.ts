/** Keeps another program's configuration in step with discovery. */
import { abortError, systemClock } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { backoffMs } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { DiscoveryEvent } from './api.ts';
import { ConfigurationFile } from './configuration-file.ts';
import type { ConfigurationFileOptions, Outcome } from './configuration-file.ts';
import { QuietPeriod } from './quiet-period.ts';
import { KnownServices } from './service-state.ts';
import type { Template } from './template.ts';

export type RenderOptions = {
  template: Template;
  file: ConfigurationFileOptions;
  /** A subscription to all services, of a client or a registry, that ends with the signal. */
  events: (signal: AbortSignal) => AsyncIterable<DiscoveryEvent>;
  env?: NodeJS.ProcessEnv;
  log: Logger;
  signal: AbortSignal;
};

/** Once, when discovery has told everything. Rejects as the file's `bring` does, or when the events end before. */
export async function renderOnce({
  template,
  file,
  events,
  env = process.env,
  signal,
}: RenderOptions): Promise<Outcome> {
  const configuration = new ConfigurationFile(file);
  const known = new KnownServices();
  for await (const event of events(signal)) {
    if (event.event === 'current') break;
    known.apply(event);
  }
  if (signal.aborted) {
    const isLate = abortError(signal).code === 'timeout';
    throw isLate ? new FlynnError('timeout', 'discovery did not tell in time what there is') : abortError(signal);
  }
  return configuration.bring(template(known.services, env), { signal });
}

/**
 * Until the signal aborts. Changes are waited for to come to rest (`minMs` without one, default 100 ms, but `maxMs` at most,
 * default 1 s). A template that cannot be filled, a check or a reload that fails is logged and tried again, sooner or later
 * (1 s, growing to 60 s) and at the next change; the file stays as it was. While discovery is away nothing happens to it.
 */
export async function keepRendered(options: RenderOptions & { minMs?: number; maxMs?: number }): Promise<void> {
  const { template, log, env = process.env, minMs = 100, maxMs = 1_000 } = options;
  const configuration = new ConfigurationFile(options.file);
  const known = new KnownServices();
  // Not the wall clock: one that is set back must not keep the file from being rendered.
  const clock = { ...systemClock, now: () => performance.now() };
  const quiet = new QuietPeriod({ minMs, maxMs, clock });
  await using tasks = new TaskGroup({ signal: options.signal });

  tasks.run('following discovery', async (signal) => {
    let isWhole = false;
    for await (const event of options.events(signal)) {
      if (event.event === 'current') {
        // What is known before is a part, and would be taken for the whole.
        if (!isWhole) quiet.hurry();
        isWhole = true;
      } else if (known.apply(event) && isWhole) quiet.touch();
    }
  });

  tasks.run('rendering', async (signal) => {
    let failures = 0;
    let retry: NodeJS.Timeout | undefined;
    for (;;) {
      await quiet.settled(signal);
      clearTimeout(retry);
      if (signal.aborted) return;
      try {
        const outcome = await configuration.bring(template(known.services, env), { signal });
        failures = 0;
        if (outcome !== 'unchanged') log.info({ file: options.file.path, outcome }, `the configuration was ${outcome}`);
      } catch (error) {
        if (signal.aborted) return;
        const retryMs = Math.round(backoffMs(failures, { minMs: 1_000, maxMs: 60_000 }));
        failures += 1;
        log.error(
          { err: error, file: options.file.path, retryMs },
          `the configuration stays as it is for now: ${messageOf(error)}`,
        );
        retry = setTimeout(() => quiet.hurry(), retryMs);
      }
    }
  });
  await tasks.done();
}
