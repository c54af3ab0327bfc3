/** Level-triggered reconciling: something about an id may have changed, so look at everything again and act. */
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import type { Mirror, MirrorChange } from '@flynn/store/mirror';
import type { Supervised } from './supervise.ts';
import { WorkQueue } from './work-queue.ts';
import type { Again } from './work-queue.ts';

export type { Again } from './work-queue.ts';

/** Where ids to reconcile come from. */
export type Source = {
  /** Every id there is now. */
  all: () => Iterable<string>;
  /** Calls `add` whenever something about an id may have changed; returns the unsubscribe function. */
  subscribe: (add: (id: string) => void) => () => void;
};

/**
 * The ids a mirror's entries are about: by default their own keys. Give `toIds` for a resource that concerns others, as
 * in `keysOf(releases, (release) => [release.spec.app])`. Both the old and the new value are asked.
 */
export function keysOf<T>(mirror: Mirror<T>, toIds?: (value: T, key: string) => Iterable<string>): Source {
  const idsOf = (value: T, key: string): Iterable<string> => (toIds === undefined ? [key] : toIds(value, key));
  const idsOfChange = ({ key, before, after }: MirrorChange<T>): Set<string> =>
    new Set([...(before === undefined ? [] : idsOf(before, key)), ...(after === undefined ? [] : idsOf(after, key))]);
  return {
    *all() {
      for (const [key, { value }] of mirror.snapshot.entries) yield* idsOf(value, key);
    },
    subscribe: (add) => mirror.onChange((change) => idsOfChange(change).forEach(add)),
  };
}

export type ReconcilerOptions = {
  name: string;
  sources: readonly Source[];
  /**
   * Brings the world nearer to what is wanted for this id. It is told nothing but the id: it reads what it needs, and an
   * id whose object is gone is normal. Idempotent. Throwing means trying again later.
   */
  reconcile: (id: string, context: { signal: AbortSignal }) => Promise<void | Again>;
  log: Logger;
  signal: AbortSignal;
  /** How many ids at a time, default 4. */
  concurrency?: number;
  /** How often every id is looked at without a reason, default 5 minutes; up to a fifth sooner, so that a fleet spreads out. */
  resyncMs?: number;
  /** From 0 up to but not including 1. */
  random?: () => number;
  /** How long one run may take, default 2 minutes. */
  deadlineMs?: number;
};

/** As one of several tasks that are kept going. */
export function reconciling(options: Omit<ReconcilerOptions, 'signal'>): Supervised {
  return { name: options.name, run: (signal) => runReconciler({ ...options, signal }) };
}

/** Runs until the signal aborts; resolves when the last run has ended. */
export async function runReconciler(options: ReconcilerOptions): Promise<void> {
  const { name, sources, reconcile, log, signal, concurrency = 4, resyncMs = 300_000, deadlineMs = 120_000 } = options;
  const { random = Math.random } = options;
  if (signal.aborted) return;
  const queue = new WorkQueue({
    concurrency,
    work: (id) => reconcile(id, { signal: withDeadline(deadlineMs, signal) }),
    onFailure: (id, error, pauseMs) => {
      const record = { err: error, reconciler: name, id, pauseMs };
      // Somebody else wrote first: the loop is made for that.
      if (hasCode(error, 'conflict')) log.debug(record, 'reconciling was overtaken');
      else log.warn(record, `reconciling ${id} failed, trying again in ${pauseMs} ms`);
    },
  });
  const addAll = () => {
    for (const source of sources) {
      try {
        for (const id of source.all()) queue.add(id);
      } catch (error) {
        // A mapper that cannot read one object must not end the others' reconciling.
        log.error({ err: error, reconciler: name }, 'a source of ids failed');
      }
    }
  };
  let resync: NodeJS.Timeout | undefined;
  const resyncLater = () => {
    resync = setTimeout(
      () => {
        addAll();
        resyncLater();
      },
      resyncPauseMs(resyncMs, random),
    );
  };
  try {
    using subscriptions = new DisposableStack();
    for (const source of sources) subscriptions.defer(source.subscribe((id) => queue.add(id)));
    resyncLater();
    addAll();
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  } finally {
    clearTimeout(resync);
    await queue.stop();
  }
}

export function resyncPauseMs(resyncMs: number, random: () => number): number {
  return Math.round(resyncMs * (1 - 0.2 * random()));
}
