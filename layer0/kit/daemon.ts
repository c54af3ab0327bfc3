/** What every daemon's main.ts shares: configuration, log, signals, exit codes. The only file here to touch the process. */
import { z } from 'zod';
import { loadConfig, printableConfig } from './config.ts';
import { asFlynnError, messageOf } from './errors.ts';
import { journalAt } from './journal.ts';
import { type Logger, createLogger } from './log.ts';
import { raceAbort } from './retry.ts';
import { TaskGroup } from './tasks.ts';

const stopDeadlineMs = 25_000;

export type DaemonContext<S extends z.ZodObject> = {
  config: z.output<S>;
  log: Logger;
  tasks: TaskGroup;
  /** Whether it was told to stop by SIGUSR2: who tells it so starts it again at once. */
  isToReturn: () => boolean;
};

/**
 * Runs a daemon until a signal or a failed task ends it. `start` resolves when it serves; what it leaves running it gives
 * to `tasks`, and it cleans up in a task that waits for the group's signal. Exit codes: 0 after SIGTERM, SIGINT or SIGUSR2,
 * 1 after a failure or a stop that took longer than 25 s. FLYNN_LOG_LEVEL is every daemon's.
 *
 * What nobody catches is logged, and ends the process at once with 1, without any clean-up. Going on would spare the connections
 * it has, and cost what nobody sees: what was thrown out of is half done, so that counts stay too high, what was taken is never
 * given back, and somebody waits for ever. Whoever supervises it starts it again, from what is known.
 */
export async function runDaemon<S extends z.ZodObject>(options: {
  name: string;
  config: S;
  start: (context: DaemonContext<S>) => Promise<void>;
  /** Where it says what it does, unless that is systemd's journal. Default standard output, which is waited for. */
  output?: { write(line: string): unknown } | undefined;
}): Promise<void> {
  const { name } = options;
  const tasks = new TaskGroup();
  const stopping = new AbortController();
  const destination = journalAt(process.env) ?? options.output;
  let log = createLogger(name, { destination });
  let isToReturn = false;
  process.on('uncaughtExceptionMonitor', (error, origin) => {
    log.fatal({ err: error, origin }, `the ${name} ends, for nobody caught this: ${messageOf(error)}`);
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGUSR2'] as const) {
    process.once(signal, () => {
      isToReturn = signal === 'SIGUSR2';
      log.info({ signal }, 'stopping');
      stopping.abort();
      setTimeout(() => {
        log.error({ waitingFor: tasks.running }, `not stopped after ${stopDeadlineMs / 1000} s, giving up`);
        process.exit(1);
      }, stopDeadlineMs).unref();
    });
  }
  // Keeps the process up even if nothing else does: a daemon ends when it is told to.
  const alive = setInterval(() => undefined, 2 ** 30);
  try {
    const { level, env } = takeLogLevel(options.config, process.env);
    log = createLogger(name, { level, destination });
    const config = loadConfig(options.config, env);
    log.info({ config: printableConfig(options.config, config) }, 'starting');
    await raceAbort(options.start({ config, log, tasks, isToReturn: () => isToReturn }), stopping.signal);
    log.info('serving');
    await raceAbort(failureOf(tasks), stopping.signal);
  } catch (error) {
    if (!stopping.signal.aborted) {
      const failure = asFlynnError(error);
      log.fatal(failure.code === 'internal' ? { err: error } : {}, `the ${name} cannot go on: ${failure.message}`);
      await Promise.race([tasks.stop(), expire(stopDeadlineMs)]);
      process.exit(1);
    }
  }
  await tasks.stop();
  clearInterval(alive);
  log.info('stopped');
  process.exit(0);
}

const logLevel = z.object({
  FLYNN_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info'),
});

/** The level, and the environment that is left for a schema that does not ask for it itself. */
function takeLogLevel(
  schema: z.ZodObject,
  env: Record<string, string | undefined>,
): { level: string; env: Record<string, string | undefined> } {
  const { FLYNN_LOG_LEVEL: given, ...rest } = env;
  const { FLYNN_LOG_LEVEL: level } = loadConfig(logLevel, { FLYNN_LOG_LEVEL: given });
  return { level, env: 'FLYNN_LOG_LEVEL' in schema.shape ? env : rest };
}

/** Never resolves; rejects when a task fails. */
function failureOf(tasks: TaskGroup): Promise<never> {
  return new Promise((_resolve, reject) => {
    const fail = () => reject(asFlynnError(tasks.signal.reason));
    if (tasks.signal.aborted) fail();
    else tasks.signal.addEventListener('abort', fail, { once: true });
  });
}

function expire(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
