/** A scheduler: watches the cell, plans what evaluations ask for, commits it. Any number of them run side by side. */
import { systemClock } from '@flynn/kit/clock';
import { asFlynnError, messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import { backoffMs } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import { cellPrefix } from './cell.ts';
import { commitPlan } from './commit.ts';
import type { CommitResult } from './commit.ts';
import { makeEvaluation } from './evaluations.ts';
import { Rooms } from './feasible.ts';
import { judgeLosses, trackMissing } from './losses.ts';
import { mergePlans } from './plan.ts';
import type { Plan, PlanContext } from './plan.ts';
import { schedule } from './schedulers/scheduler.ts';
import { CellState, decodeCellEntry, splitHostKey } from './snapshot.ts';
import type { CellEntry } from './snapshot.ts';
import { triggersOf } from './triggers.ts';
import { Worklist, isOwnWorkload } from './worklist.ts';
import type { Cause } from './worklist.ts';

export type SchedulerOptions = {
  store: Store;
  log: Logger;
  signal: AbortSignal;
  /** The host it runs on; its share of the workloads follows from that. */
  id: string;
  /** Where its loop runs; without, in a group of its own. */
  tasks?: TaskGroup;
  /** How long another scheduler's workloads are left to it, default 5 s. */
  takeoverMs?: number;
  /** How long after its lease ended a host is lost, default 1 s; when most hosts are away, `lossHoldMs`, default 60 s. */
  lossGraceMs?: number;
  lossHoldMs?: number;
  /** How often all workloads are checked for what no event told of, default 30 s. */
  repairMs?: number;
};

export interface RunningScheduler extends AsyncDisposable {
  /** Plans committed, and plans refused because the cell had moved on. */
  readonly counts: Readonly<{ committed: number; refused: number }>;
}

/** Workloads planned and committed together: enough for a boot, few enough that a refusal costs little. */
const batchSize = 16;
const maxRefusals = 8;
/** What can never be written or planned is looked at again now and then: somebody may have mended it. */
const faultPauseMs = 10_000;

type Task = { workloadId: string; cause: Cause };

/** Resolves when the cell is known and the loop runs. */
export async function startScheduler(options: SchedulerOptions): Promise<RunningScheduler> {
  const { store, log, signal } = options;
  const mirror = await openMirror<CellEntry>({ store, prefix: cellPrefix, decode: decodeCellEntry, log, signal });
  const own = options.tasks === undefined ? new TaskGroup({ signal }) : undefined;
  const tasks = options.tasks ?? own;
  const scheduler = new SchedulerLoop(mirror, options);
  tasks?.run('scheduler', (signal) => scheduler.run(AbortSignal.any([signal, options.signal])));
  return {
    counts: scheduler.counts,
    async [Symbol.asyncDispose]() {
      scheduler.stop();
      await own?.stop();
      await mirror[Symbol.asyncDispose]();
    },
  };
}

/**
 * INVARIANTS. Nothing waits between reading the cell and having made the transactions of a plan. A workload taken from the
 * list is planned, or put back. Safety rests on the compares alone; whose workload it is, only saves work.
 */
class SchedulerLoop {
  readonly counts = { committed: 0, refused: 0 };
  readonly #cell = new CellState();
  readonly #mirror: Mirror<CellEntry>;
  readonly #options: SchedulerOptions;
  readonly #worklist: Worklist;
  readonly #stopped = new AbortController();
  #missingSince: ReadonlyMap<string, number> = new Map();
  #lostHosts: ReadonlySet<string> = new Set();
  #repairAt = 0;
  #wake = Promise.withResolvers<void>();

  constructor(mirror: Mirror<CellEntry>, options: SchedulerOptions) {
    this.#mirror = mirror;
    this.#options = options;
    this.#worklist = new Worklist({ takeoverMs: options.takeoverMs ?? 5_000 });
    for (const [key, { value }] of mirror.snapshot.entries) this.#cell.fold({ key, after: value });
    mirror.onChange((change) => {
      this.#cell.fold(change);
      const now = performance.now();
      for (const { workloadId, cause } of triggersOf(change, this.#cell)) this.#worklist.add(workloadId, cause, now);
      this.#wake.resolve();
    });
  }

  stop(): void {
    this.#stopped.abort();
  }

  async run(outer: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([outer, this.#stopped.signal]);
    while (!signal.aborted) {
      // From here on every change counts as new.
      this.#wake = Promise.withResolvers();
      // Waiting is counted on a clock that nobody sets.
      const now = performance.now();
      const nextLossAt = this.#findLosses(now);
      this.#repair(now);
      const batch = this.#worklist.take({
        now,
        limit: batchSize,
        isOwn: (workloadId) => this.#isOwn(workloadId),
        // What is gone makes room for others.
        priorityOf: (workloadId) => this.#cell.workloads.get(workloadId)?.value.priority ?? 101,
      });
      if (batch.length > 0) {
        await this.#process(batch, signal);
        continue;
      }
      const nextWorkAt = this.#worklist.nextAt((workloadId) => this.#isOwn(workloadId));
      const until = Math.min(this.#repairAt, nextWorkAt ?? Infinity, nextLossAt ?? Infinity);
      await this.#sleep(Math.max(1, until - performance.now()), signal);
    }
  }

  #isOwn(workloadId: string): boolean {
    return isOwnWorkload(workloadId, this.#options.id, this.#cell.hosts.keys());
  }

  #findLosses(now: number): number | undefined {
    const { lossGraceMs = 1_000, lossHoldMs = 60_000, log } = this.#options;
    this.#missingSince = trackMissing(this.#missingSince, this.#cell, now);
    const before = this.#lostHosts;
    const { lost, nextAt } = judgeLosses({
      missingSince: this.#missingSince,
      present: this.#cell.hosts.size,
      now,
      graceMs: lossGraceMs,
      holdMs: lossHoldMs,
    });
    this.#lostHosts = lost;
    const fresh = [...lost].filter((hostId) => !before.has(hostId));
    for (const hostId of fresh) log.warn({ hostId }, `host ${hostId} is lost: its work is placed elsewhere`);
    if (fresh.length === 0) return nextAt;
    for (const [key, { value }] of this.#cell.assignments) {
      if (!fresh.includes(splitHostKey(key).hostId)) continue;
      for (const { workloadId } of value.jobs) this.#worklist.add(workloadId, 'host_lost', now);
    }
    return nextAt;
  }

  /** What no event told of: changes from before the start, and whatever was written without an evaluation. */
  #repair(now: number): void {
    if (now < this.#repairAt) return;
    this.#repairAt = now + (this.#options.repairMs ?? 30_000);
    const { workloads, evaluations } = this.#cell;
    for (const workloadId of new Set([...workloads.keys(), ...evaluations.keys(), ...this.#cell.workloadsWithJobs()])) {
      if (this.#isOwn(workloadId) || this.#cell.evaluations.has(workloadId)) {
        this.#worklist.add(workloadId, 'workload', now);
      }
    }
  }

  async #process(batch: readonly Task[], signal: AbortSignal): Promise<void> {
    try {
      if (await this.#attempt(batch, signal)) return;
    } catch (error) {
      if (signal.aborted) return;
      if (!isOwnFault(error)) return await this.#putBack(batch, error, signal);
    }
    // Refused together, one by one: what stands in the way of one does not hold up the others.
    for (const task of batch) await this.#processAlone(task, signal);
  }

  async #processAlone(task: Task, signal: AbortSignal): Promise<void> {
    try {
      for (let refusals = 2; !(await this.#attempt([task], signal)); refusals += 1) {
        if (refusals > maxRefusals) {
          const message = 'the cell changes too fast to place this, trying again in a moment';
          this.#options.log.info({ ...task, refusals }, message);
          this.#retryIn(backoffMs(2, { minMs: 50, maxMs: 500 }), [task]);
          return;
        }
        await systemClock.sleep(backoffMs(refusals, { minMs: 1, maxMs: 50 }), { signal });
      }
    } catch (error) {
      if (!signal.aborted) await this.#putBack([task], error, signal);
    }
  }

  async #putBack(tasks: readonly Task[], error: unknown, signal: AbortSignal): Promise<void> {
    const isFault = isOwnFault(error);
    const level = isFault ? 'error' : 'warn';
    this.#options.log[level]({ err: error, tasks }, `could not schedule, trying again: ${messageOf(error)}`);
    const afterMs = isFault ? faultPauseMs : backoffMs(3, { minMs: 50, maxMs: 1_000 });
    this.#retryIn(afterMs, tasks);
    // Without the store nothing else succeeds either.
    if (!isFault) await this.#sleep(afterMs, signal);
  }

  #retryIn(afterMs: number, tasks: readonly Task[]): void {
    const now = performance.now();
    for (const { workloadId, cause } of tasks) this.#worklist.add(workloadId, cause, now, { afterMs });
  }

  /** False when the plan was refused; the mirror then knows why. */
  async #attempt(batch: readonly Task[], signal: AbortSignal): Promise<boolean> {
    const { store } = this.#options;
    const plan = this.#plan(batch);
    const result: CommitResult = await commitPlan(store, plan, this.#cell, { signal });
    if (result.state === 'refused') this.counts.refused += 1;
    if (result.state === 'committed') this.counts.committed += 1;
    // The next plan is made on a cell that has this one.
    if (result.state !== 'nothing') await this.#mirror.reached(result.revision, { signal });
    if (result.state === 'refused') return false;
    this.#note(plan, result);
    return true;
  }

  #plan(batch: readonly Task[]): Plan {
    const now = Date.now();
    const context: PlanContext = {
      now,
      newId: shortId,
      random: Math.random,
      // One that came back since then is not lost any more.
      lostHosts: new Set([...this.#lostHosts].filter((hostId) => !this.#cell.hosts.has(hostId))),
      rooms: new Rooms(this.#cell),
    };
    const plans = batch.map(({ workloadId, cause }) => {
      const known = this.#cell.evaluations.get(workloadId)?.value;
      return schedule(known ?? makeEvaluation(workloadId, cause, { now, newId: shortId }), this.#cell, context);
    });
    return mergePlans(plans, shortId());
  }

  #note(plan: Plan, result: CommitResult): void {
    for (const { evaluation, state, reason, retryAt } of plan.outcomes) {
      const { workloadId, cause } = evaluation;
      if (retryAt !== undefined) this.#retryIn(Math.max(1, retryAt - Date.now()), [{ workloadId, cause }]);
      if (state === 'blocked' && result.state === 'committed') {
        this.#options.log.info({ workloadId, reason }, `${workloadId} waits: ${reason ?? ''}`);
      }
    }
    if (result.state !== 'committed') return;
    for (const [hostId, { add, stop, release }] of plan.hosts) {
      const counts = { placed: add.length, stopped: stop.length, released: release.length };
      this.#options.log.debug({ planId: plan.id, hostId, ...counts }, 'committed a plan');
    }
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const sleep = systemClock.sleep(ms, { signal: AbortSignal.any([signal, woken.signal]) });
    try {
      // A sleep that is cut short by the signal ends the loop; by a change, it has done its part.
      await Promise.race([this.#wake.promise, sleep.catch(() => undefined)]);
    } finally {
      woken.abort();
    }
  }
}

/** The workload's or ours, not the store's: the same again gives the same. */
function isOwnFault(error: unknown): boolean {
  const { code } = asFlynnError(error);
  return code === 'internal' || code === 'invalid';
}
