/** Leadership: one of many processes does the work, and one that lost it cannot write any more. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import type { Compare, Revision, Store } from '@flynn/store/store';

export type LeaderContext = {
  /** Aborts when leadership is lost, `runAsLeader` is told to end, or `lead` has ended, however it did. */
  signal: AbortSignal;
  /** Holds exactly as long as this term lasts. Every write a leader does carries it: leases alone exclude nobody. */
  epochCompare: Compare;
};

export type LeaderOptions = {
  store: Store;
  name: string;
  /** How long a dead leader keeps its seat. */
  ttlSeconds: number;
  signal: AbortSignal;
  log: Logger;
  /**
   * Runs for a term; the next begins only when it has returned, so what it began has to have ended by then. Returning early gives
   * the seat up.
   */
  lead: (context: LeaderContext) => Promise<void>;
};

const resignedMs = 500;

export function leaderKey(name: string): string {
  return `/flynn/leader/${name}`;
}

/** Waits for its turn, leads, and waits again, until the signal aborts. Failures of `lead` are logged and end its term. */
export async function runAsLeader(options: LeaderOptions): Promise<void> {
  const { name, signal, log } = options;
  const pace = { signal, log, minMs: 200, maxMs: 10_000 };
  await forever(`leading ${name}`, (ended) => campaignOnce(options, ended), pace);
}

async function campaignOnce(options: LeaderOptions, signal: AbortSignal): Promise<void> {
  const { store, name, ttlSeconds, log } = options;
  await waitForSeat(store, leaderKey(name), ttlSeconds, signal);
  if (signal.aborted) return;
  await using lease = await store.grantLease({ ttlSeconds, signal });
  const key = leaderKey(name);
  const { succeeded, revision } = await store.transact(
    {
      compare: [{ key, createRevision: 0 }],
      then: [{ put: key, value: JSON.stringify({ lease: lease.id }), lease: lease.id }],
    },
    { signal },
  );
  if (!succeeded) return;
  log.info({ leader: name, epoch: revision }, `leading ${name}`);
  const over = new AbortController();
  const term = AbortSignal.any([signal, lease.lost, over.signal]);
  try {
    await options.lead({ signal: term, epochCompare: { key, createRevision: revision } });
  } catch (error) {
    if (!term.aborted) throw error;
    log.debug({ err: error, leader: name }, 'the term ended');
  } finally {
    // Giving the lease back is no loss of it: nothing else tells what was left behind that it leads no more.
    over.abort();
  }
  if (signal.aborted) return;
  if (lease.lost.aborted) throw new FlynnError('unavailable', `the lease on leading ${name} was lost`);
  // It gave the seat up: others get to it first.
  await lease.revoke();
  await systemClock.sleep(resignedMs, { signal });
}

/** Resolves when the seat is free or has been for a moment; a stale answer costs one refused transaction. */
async function waitForSeat(store: Store, key: string, ttlSeconds: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { reads, revision } = await store.transact({ then: [{ get: key }] }, { signal });
    if (reads[0]?.[0] === undefined) return;
    // Looking again now and then, so that a watch that stands still cannot keep the seat empty.
    await seeDeletion(store, key, revision, withDeadline(Math.ceil(Math.max(ttlSeconds, 1) * 2000), signal));
  }
}

async function seeDeletion(store: Store, key: string, after: Revision, signal: AbortSignal): Promise<void> {
  try {
    for await (const { changes } of store.watch(key, { after, signal })) {
      if (changes.some((change) => change.type === 'delete' && change.key === key)) return;
    }
  } catch (error) {
    // The history was compacted: reading the key again tells the same.
    if (!hasCode(error, 'conflict')) throw error;
  }
}
