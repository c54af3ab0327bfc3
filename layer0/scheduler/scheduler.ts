/** A scheduler: watches the cell, plans what evaluations ask for, commits it. Any number of them run side by side. */
import { pause } from '@flynn/kit/clock';
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { backoffMs } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { RestoredError } from '@flynn/store/store';
import type { Store, Transaction, TransactionResult } from '@flynn/store/store';
import { CellFollower } from './cell-follower.ts';
import { CellSweeper } from './cell-sweeper.ts';
import { ClaimMender } from './claim-mender.ts';
import type { Batch, Fence } from './commit.ts';
import { SchedulerCore } from './core.ts';
import { quickIds } from './quick-ids.ts';
import { loadSchedulers } from './schedulers/load.ts';
import { ClockSetError, SteadyClock } from './steady-clock.ts';

export type SchedulerOptions = {
  store: Store;
  log: Logger;
  signal: AbortSignal;
  /** The host it runs on; its share of the workloads follows from that. */
  id: string;
  /** Where its loop runs; without, in a group of its own. */
  tasks?: TaskGroup;
  /** A key it holds as long as it may commit. */
  fence?: Fence;
  /** Modules of schedulers of a user's own, by absolute path. */
  schedulerPaths?: readonly string[];
  /** How long another scheduler's workloads are left to it, default 5 s. */
  takeoverMs?: number;
  /**
   * How long after its lease ended a host is lost, default a quarter of one; when most hosts went at once, `lossHoldMs`, default 60
   * s.
   */
  lossGraceMs?: number;
  lossHoldMs?: number;
  /** How often all workloads are checked for what no event told of, default 30 s. */
  repairMs?: number;
  /** How often its view of the cell is compared with the store, default 60 s. */
  resyncMs?: number;
  /** How long a plan waits for others to be committed with it, default 1 ms. */
  lingerMs?: number;
  /** How often what nobody needs any more is removed, if it falls to this scheduler; default 60 s. */
  sweepMs?: number;
  /** The longest first pause before it begins anew where the store was restored or the clock set, default 2 s; they grow to 5 s. */
  reopenMs?: number;
};

export type SchedulerCounts = Readonly<{
  /** Transactions committed, and refused because the cell had moved on; hosts and plans that stood in the way. */
  committed: number;
  refused: number;
  conflicts: number;
  placements: number;
  /** Entries its view of the cell had lost. */
  drift: number;
  /** By state: ready, waiting for their time, behind others of their workload, being carried out, waiting for room. */
  evaluations: Readonly<Record<'ready' | 'waiting' | 'pending' | 'outstanding' | 'blocked', number>>;
}>;

export interface RunningScheduler extends AsyncDisposable {
  readonly counts: SchedulerCounts;
  /** Why hosts that are away are not given up, if so. */
  readonly suspicion: string | undefined;
}

/** One that went on for so long begins anew as the first time. */
const steadyMs = 60_000;

/** Resolves when the cell is known and the loop runs. */
export async function startScheduler(options: SchedulerOptions): Promise<RunningScheduler> {
  const { signal, schedulerPaths = [], log, reopenMs = 2_000 } = options;
  const schedulers = await loadSchedulers(schedulerPaths);
  const own = options.tasks === undefined ? new TaskGroup({ signal }) : undefined;
  const tasks = options.tasks ?? own ?? new TaskGroup({ signal });
  const stopped = new AbortController();
  const ended = AbortSignal.any([signal, stopped.signal]);
  const newLoop = () => new SchedulerLoop(options, new SchedulerCore(coreOptions(options, schedulers)));
  let loop = newLoop();
  await loop.open(ended);
  tasks.run('scheduler', async (inner) => {
    const living = AbortSignal.any([inner, ended]);
    let attempts = 0;
    for (;;) {
      const openedMs = performance.now();
      const why = await endOf(loop, living);
      if (why === undefined) return;
      if (performance.now() - openedMs > steadyMs) attempts = 0;
      log.warn({ id: options.id, attempts }, `${why}: the scheduler begins anew`);
      do {
        // All schedulers of a fleet are here at once, and each lists the whole cell.
        await pause(backoffMs(attempts, { minMs: reopenMs, maxMs: 5_000 }), living);
        attempts += 1;
        loop = newLoop();
      } while (!living.aborted && !(await isOpened(loop, living, log)));
    }
  });
  return {
    get counts() {
      return loop.counts;
    },
    get suspicion() {
      return loop.suspicion;
    },
    async [Symbol.asyncDispose]() {
      stopped.abort();
      await own?.stop();
    },
  };
}

/** Why it is of no use any more, for people; undefined where it was stopped. */
async function endOf(loop: SchedulerLoop, signal: AbortSignal): Promise<string | undefined> {
  if (signal.aborted) return undefined;
  try {
    await loop.run(signal);
    return undefined;
  } catch (error) {
    if (error instanceof ClockSetError) return error.message;
    if (error instanceof RestoredError) return 'the store was restored';
    throw error;
  }
}

/** Whatever a store answers while it is restored, or away, it may pass: the hosts' jobs run on meanwhile. */
async function isOpened(loop: SchedulerLoop, signal: AbortSignal, log: Logger): Promise<boolean> {
  try {
    await loop.reopen(signal);
    return true;
  } catch (error) {
    if (!signal.aborted) log.warn({ err: error }, `could not list the store anew, trying again: ${messageOf(error)}`);
    return false;
  }
}

function coreOptions(options: SchedulerOptions, schedulers: Awaited<ReturnType<typeof loadSchedulers>>) {
  const { log } = options;
  return {
    ...options,
    schedulers,
    newId: quickIds(),
    random: Math.random,
    tell: (level: 'info' | 'warn' | 'error', message: string, facts: Readonly<Record<string, unknown>>) =>
      log[level](facts, message),
  };
}

/**
 * INVARIANTS. Whatever happens wakes the loop; the core is only ever called from here, one call after the other. It is good for
 * one store and one clock: what the core knows and what it has under way, its ledger included, is void once that was restored
 * or this one set.
 */
class SchedulerLoop {
  readonly #options: SchedulerOptions;
  readonly #core: SchedulerCore;
  readonly #follower: CellFollower;
  readonly #clock = new SteadyClock();
  #committed = 0;
  #failure: FlynnError | undefined;
  #wake = Promise.withResolvers<void>();
  /** Calls of the store under way: stopping waits for them. */
  readonly #calls = new Set<Promise<void>>();

  constructor(options: SchedulerOptions, core: SchedulerCore) {
    this.#options = options;
    this.#core = core;
    this.#follower = new CellFollower({
      ...options,
      columns: core.columns,
      fold: (batch) => {
        core.fold(batch, this.#clock.now());
        this.#wake.resolve();
      },
    });
  }

  get counts(): SchedulerCounts {
    const { refusals, conflicts, placements } = this.#core.committer.counts;
    const evaluations = this.#core.evaluationCounts(this.#clock.now());
    return {
      committed: this.#committed,
      refused: refusals,
      conflicts,
      placements,
      drift: this.#follower.driftCount,
      evaluations,
    };
  }

  get suspicion(): string | undefined {
    return this.#core.suspicion;
  }

  async open(signal: AbortSignal): Promise<void> {
    await this.#follower.open(signal);
    this.#core.open(this.#clock.now());
  }

  /** Tried once, and as long as it takes: half of it is of no use to the next one. */
  async reopen(signal: AbortSignal): Promise<void> {
    await this.#follower.read(signal);
    this.#core.open(this.#clock.now());
  }

  /** Resolves when the signal has aborted and its calls have ended; RestoredError, ClockSetError: it is of no use any more. */
  async run(signal: AbortSignal): Promise<void> {
    const tasks = new TaskGroup({ signal });
    this.#follower.follow(tasks);
    tasks.run('scheduler', (inner) => this.#loop(inner));
    new CellSweeper({ ...this.#options, core: this.#core }).run(tasks);
    new ClaimMender({ ...this.#options, columns: this.#core.columns, newId: quickIds() }).run(tasks);
    await tasks.done();
  }

  async #loop(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#wake.resolve(), { once: true });
    while (!signal.aborted) {
      // From here on every change counts as new.
      this.#wake = Promise.withResolvers();
      if (this.#failure !== undefined) throw this.#failure;
      this.#clock.check();
      // One moment for all of it: what is due between two looks at the clock would be missed.
      const at = this.#clock.now();
      this.#core.step(at);
      this.#send(at, signal);
      if (this.#core.committer.isFenced) {
        throw new FlynnError('conflict', "this scheduler's lease is over: it may not commit any more");
      }
      const waitMs = Math.max(0, this.#core.nextAt(at) - this.#clock.now());
      await this.#sleep(Math.min(waitMs, 60_000), signal);
    }
    await Promise.all(this.#calls);
  }

  #send(at: number, signal: AbortSignal): void {
    for (let batch = this.#core.nextBatch(at); batch !== undefined; batch = this.#core.nextBatch(at)) {
      this.#track(this.#commit(batch, signal));
    }
    for (const note of this.#core.takeNotes()) this.#track(this.#write(note, signal));
  }

  #track(call: Promise<void>): void {
    const tracked = this.#settled(call).finally(() => {
      this.#calls.delete(tracked);
      this.#wake.resolve();
    });
    this.#calls.add(tracked);
  }

  /** What goes wrong in a call is the loop's to tell. */
  async #settled(call: Promise<void>): Promise<void> {
    try {
      await call;
    } catch (error) {
      this.#failure ??= asFlynnError(error);
    }
  }

  /** Until the store has answered: sent again after a lost reply, which the batch's id makes harmless. */
  async #commit(batch: Batch, signal: AbortSignal): Promise<void> {
    const { store, log } = this.#options;
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      let answer: TransactionResult;
      try {
        answer = await store.transact(batch.transaction, { signal });
      } catch (error) {
        if (signal.aborted) return;
        if (isRefusedForGood(error)) {
          log.warn({ err: error, batch: batch.id }, `the store does not take a plan: ${messageOf(error)}`);
          this.#core.tooLarge(batch, messageOf(error), this.#clock.now());
          return;
        }
        log.warn({ err: error, batch: batch.id }, `could not commit, trying again: ${messageOf(error)}`);
        await pause(backoffMs(attempt, { minMs: 50, maxMs: 1_000 }), signal);
        continue;
      }
      if (answer.succeeded) this.#committed += 1;
      this.#core.answered(batch, answer, this.#clock.now());
      return;
    }
  }

  async #write(note: Transaction, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.store.transact(note, { signal });
    } catch (error) {
      if (!signal.aborted) this.#options.log.info({ err: error }, `could not end an evaluation: ${messageOf(error)}`);
    }
  }

  /** Until something happens; the end of the loop is such a thing. Thousands of times a second, so without signals of its own. */
  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { promise, resolve } = this.#wake;
    const timer = setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
  }
}

/** The transaction's fault, not the store's: the same again gives the same. What nobody knows (`internal`) may pass. */
function isRefusedForGood(error: unknown): boolean {
  const { code, message } = asFlynnError(error);
  return code === 'invalid' || /too large|larger than|too many operations/.test(message);
}
