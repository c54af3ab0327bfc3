/** A control loop with its place: one in the whole cluster, by a lease, or one in every process; kept going either way. */
import type { Logger } from '@flynn/kit/log';
import type { Compare, Store } from '@flynn/store/store';
import { runAsLeader } from './lease.ts';
import { supervise } from './supervise.ts';
import type { SuperviseOptions } from './supervise.ts';

export type ControllerRun = {
  signal: AbortSignal;
  log: Logger;
  /** Of a singleton: every write carries it, and fails once another has the seat. */
  epoch?: Compare;
};

export type Controller = Readonly<{
  /** Unique: a singleton's seat is called by it. */
  name: string;
  placement: 'singleton' | 'each';
  /** Runs until the signal aborts. What it throws is logged, and it is started again, with back-off. */
  run: (context: ControllerRun) => Promise<void>;
  /** Before each start; tried again, with the same back-off, until it succeeds. */
  initialize?: (context: ControllerRun) => Promise<void>;
}>;

export type RunControllerOptions = Omit<SuperviseOptions, 'log'> & {
  store: Store;
  log: Logger;
  /** How long a dead singleton keeps its seat, default 5 s. */
  leaseTtlSeconds?: number;
};

/** Resolves when the signal has aborted and the controller has ended. A controller that keeps failing stops no other. */
export async function runController(controller: Controller, options: RunControllerOptions): Promise<void> {
  const { name, placement } = controller;
  const { store, signal, log, leaseTtlSeconds = 5 } = options;
  const start = (epoch: Compare | undefined, until: AbortSignal) =>
    supervise(
      name,
      async (alive) => {
        const context = { signal: alive, log, ...(epoch === undefined ? {} : { epoch }) };
        await controller.initialize?.(context);
        if (!alive.aborted) await controller.run(context);
      },
      { ...options, signal: until },
    );
  if (placement === 'each') return start(undefined, signal);
  return runAsLeader({
    store,
    name: `controller/${name}`,
    ttlSeconds: leaseTtlSeconds,
    signal,
    log,
    lead: (term) => start(term.epochCompare, term.signal),
  });
}
