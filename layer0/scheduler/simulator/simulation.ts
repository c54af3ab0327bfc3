/**
 * A whole cell on virtual time: the schedulers that run in production, hosts that do as they are told, and a store that
 * answers late. The same seed gives the same run, to the last revision.
 */
import { FlynnError } from '@flynn/kit/errors';
import { MemoryDatabase } from '@flynn/store/memory-database';
import type { Operation } from '@flynn/store/store';
import { cellKeys, cellPrefix } from '../cell.ts';
import type { HostRecord, WorkloadInput } from '../cell.ts';
import type { CellColumns } from '../columns/cell-columns.ts';
import { SchedulerCore } from '../core.ts';
import type { CoreOptions } from '../core.ts';
import { evaluationPut, workloadChange, workloadRemoval } from '../evaluations.ts';
import { Heap } from '../heap.ts';
import { RevisionChecker, byRevision } from '../history.ts';
import { quickIds } from '../quick-ids.ts';
import { seeded, seededIds } from './random.ts';

export type Delay = Readonly<{ minMs: number; maxMs: number }>;

export type SimulationOptions = Readonly<{
  seed: number;
  hosts: readonly HostRecord[];
  /** How many schedulers; the n-th runs on the n-th host. */
  schedulers: number;
  /** To the store, and back from it. Default 1–3 ms. */
  callMs?: Delay;
  /** From a commit to a scheduler or a host that watches. Default 1–5 ms. */
  watchMs?: Delay;
  /** Hosts start and stop jobs; without, nothing is ever heard of a job. */
  hasAgents?: boolean;
  /** Every revision is checked; `violations` says what was wrong. */
  isChecked?: boolean;
  core?: Partial<CoreOptions>;
  /** Of one scheduler alone, by the host it runs on. */
  coreOf?: (hostId: string) => Partial<CoreOptions>;
}>;

type Event = Readonly<{ at: number; order: number; run: () => void }>;
type Scheduler = { readonly core: SchedulerCore; seen: number; deliverAt: number; wakeAt: number; isHearing: boolean };

/** INVARIANTS. Events run in the order of their time, those of one time in the order they were made. */
export class Simulation {
  now = 1_000_000;
  readonly database = new MemoryDatabase();
  readonly violations: string[] = [];
  readonly #options: SimulationOptions;
  readonly #random: () => number;
  readonly #newId: () => string;
  readonly #events = new Heap<Event>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  readonly #schedulers: Scheduler[] = [];
  readonly #checker = new RevisionChecker();
  readonly #stepping = new Set<string>();
  #order = 0;
  #checked = 1;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#random = seeded(options.seed);
    this.#newId = seededIds(this.#random);
    this.write(options.hosts.map((host) => ({ put: cellKeys.host(host.id), value: JSON.stringify(host) })));
    for (const { id } of options.hosts.slice(0, options.schedulers)) this.#startScheduler(id);
  }

  get cores(): readonly SchedulerCore[] {
    return this.#schedulers.map(({ core }) => core);
  }

  /** The cell as the store has it; only with `isChecked`. */
  get cell(): CellColumns {
    return this.#checker.cell;
  }

  /** Of all schedulers together. */
  get counts(): Readonly<{ transactions: number; refusals: number; conflicts: number; placements: number }> {
    const sum = { transactions: 0, refusals: 0, conflicts: 0, placements: 0 };
    for (const { committer } of this.cores) {
      for (const key of ['transactions', 'refusals', 'conflicts', 'placements'] as const)
        sum[key] += committer.counts[key];
    }
    return sum;
  }

  get context(): { now: number; newId: () => string } {
    return { now: this.now, newId: this.#newId };
  }

  after(ms: number, run: () => void): void {
    this.#order += 1;
    this.#events.push({ at: this.now + ms, order: this.#order, run });
  }

  change(workload: WorkloadInput): void {
    this.write(workloadChange(workload, this.context));
  }

  remove(workloadId: string): void {
    this.write(workloadRemoval(workloadId, this.context));
  }

  loseHost(hostId: string): void {
    this.write([{ delete: cellKeys.host(hostId) }]);
  }

  returnHost(host: HostRecord): void {
    this.write([{ put: cellKeys.host(host.id), value: JSON.stringify(host) }]);
    this.#stepHostSoon(host.id);
  }

  /** At once, as somebody that the store is near to. */
  write(then: readonly Operation[]): void {
    this.database.transact({ then });
    this.#committed();
  }

  run(forMs: number): void {
    const until = this.now + forMs;
    this.runUntil(
      () => false,
      forMs,
      () => (this.now = until),
    );
  }

  /** `invalid` when it does not come true within that time. */
  runUntil(isTrue: () => boolean, withinMs: number, otherwise?: () => void): void {
    const until = this.now + withinMs;
    while (!isTrue()) {
      const event = this.#events.peek();
      if (event === undefined || event.at > until) {
        if (otherwise !== undefined) return otherwise();
        throw new FlynnError('invalid', `the simulation did not get there within ${withinMs} ms of its time`);
      }
      this.#events.pop();
      this.now = event.at;
      event.run();
    }
    return undefined;
  }

  /** Nothing is under way, and nobody has heard less than there is to hear. */
  isQuiet(): boolean {
    return this.#schedulers.every(({ core, isHearing }) => !isHearing && core.isIdle(this.now));
  }

  #startScheduler(id: string): void {
    const core = new SchedulerCore({
      id,
      newId: quickIds(this.#newId),
      random: this.#random,
      peers: this.#options.hosts.slice(0, this.#options.schedulers).map((host) => host.id),
      tell: () => undefined,
      ...this.#options.core,
      ...this.#options.coreOf?.(id),
    });
    const { entries, revision } = this.database.list(cellPrefix);
    core.fold({ revision, changes: entries.map((entry) => ({ type: 'put', entry })) }, this.now);
    core.open(this.now);
    const scheduler: Scheduler = { core, seen: revision, deliverAt: 0, wakeAt: Infinity, isHearing: false };
    this.#schedulers.push(scheduler);
    this.after(0, () => this.#pump(scheduler));
  }

  #pump(scheduler: Scheduler): void {
    const { core } = scheduler;
    core.step(this.now);
    for (let batch = core.nextBatch(this.now); batch !== undefined; batch = core.nextBatch(this.now)) {
      const sent = batch;
      this.after(this.#delay('callMs'), () => {
        const answer = this.database.transact(sent.transaction);
        if (answer.succeeded) this.#committed();
        this.after(this.#delay('callMs'), () => {
          core.answered(sent, answer, this.now);
          this.#pump(scheduler);
        });
      });
    }
    for (const note of core.takeNotes()) {
      this.after(this.#delay('callMs'), () => {
        if (this.database.transact(note).succeeded) this.#committed();
      });
    }
    const wakeAt = Math.max(core.nextAt(this.now), this.now + 0.01);
    if (wakeAt === Infinity || (wakeAt >= scheduler.wakeAt && scheduler.wakeAt > this.now)) return;
    scheduler.wakeAt = wakeAt;
    this.after(wakeAt - this.now, () => {
      if (scheduler.wakeAt === wakeAt) this.#pump(scheduler);
    });
  }

  #committed(): void {
    if (this.#options.isChecked === true) this.#check();
    for (const scheduler of this.#schedulers) {
      // Later ones overtake nobody: what is heard is everything up to then.
      if (scheduler.isHearing) continue;
      scheduler.isHearing = true;
      this.after(this.#delay('watchMs'), () => this.#hear(scheduler));
    }
    if (this.#options.hasAgents !== true) return;
    for (const change of this.database.changesAfter(this.database.revision - 1, cellKeys.assignments).changes) {
      const key = change.type === 'put' ? change.entry.key : change.key;
      this.#stepHostSoon(key.slice(cellKeys.assignments.length).split('/')[0] ?? '');
    }
  }

  #hear(scheduler: Scheduler): void {
    scheduler.isHearing = false;
    while (scheduler.seen < this.database.revision) {
      const batch = this.database.changesAfter(scheduler.seen, cellPrefix);
      scheduler.seen = batch.revision;
      scheduler.core.fold(batch, this.now);
    }
    this.#pump(scheduler);
  }

  #check(): void {
    const batch = this.database.changesAfter(this.#checked, cellPrefix);
    this.#checked = batch.revision;
    for (const [revision, changes] of byRevision(batch.changes)) {
      for (const what of this.#checker.fold(changes)) this.violations.push(`${revision}: ${what}`);
    }
  }

  #stepHostSoon(hostId: string): void {
    if (this.#options.hasAgents !== true || this.#stepping.has(hostId)) return;
    this.#stepping.add(hostId);
    this.after(this.#delay('watchMs'), () => {
      this.#stepping.delete(hostId);
      this.#stepHost(hostId);
    });
  }

  /** Takes each job one step further: starts what is to run, ends what is to stop. */
  #stepHost(hostId: string): void {
    if (this.database.get(cellKeys.host(hostId)) === undefined) return;
    for (const job of this.cell.jobsOn(hostId)) {
      if (job.status?.isFinal === true || (job.desired === 'run' && job.status?.state === 'running')) continue;
      const { id, workloadId, version, createdAt } = job;
      const isFinal = job.desired === 'stop';
      const ended = isFinal ? { endedAt: this.now } : {};
      const state = isFinal ? 'done' : 'running';
      const status = { id, hostId, workloadId, version, state, isFinal, createdAt, startedAt: this.now, ...ended };
      const put = { put: cellKeys.jobStatus(hostId, id), value: JSON.stringify(status) };
      this.write(isFinal ? [put, evaluationPut(workloadId, 'job_ended', this.context)] : [put]);
    }
  }

  #delay(kind: 'callMs' | 'watchMs'): number {
    const { minMs, maxMs } =
      this.#options[kind] ?? (kind === 'callMs' ? { minMs: 1, maxMs: 3 } : { minMs: 1, maxMs: 5 });
    return minMs + this.#random() * (maxMs - minMs);
  }
}
