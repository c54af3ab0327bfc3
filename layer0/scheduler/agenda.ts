/** What a scheduler has to look at: evaluations as the store has them, those that changes call for, those that wait for room. */
import type { Operation, Revision, Transaction } from '@flynn/store/store';
import { Blocked } from './blocked.ts';
import type { Relief } from './blocked.ts';
import { Broker } from './broker.ts';
import type { CellChange } from './cell-change.ts';
import { cellKeys } from './cell.ts';
import { departuresOf } from './drain.ts';
import type { Evaluation } from './evaluation.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { advance, evaluationWrite, isEnded, makeEvaluation, supersede } from './evaluations.ts';
import { Failures } from './failures.ts';
import type { Ledger } from './ledger.ts';
import { isOwnWorkload } from './ownership.ts';
import { roomComing } from './preemption.ts';
import type { Resources } from './resources.ts';
import { builtInSchedulers, schedulerFor } from './schedulers/scheduler.ts';
import type { Schedulers } from './schedulers/scheduler.ts';
import { Triggers, reliefOf, reliefOn } from './triggers.ts';
import type { Trigger } from './triggers.ts';

export type AgendaOptions = Readonly<{
  columns: CellColumns;
  ledger: Ledger;
  /** The host the scheduler runs on. */
  id: string;
  /** All schedulers there are, if not one on every host. */
  peers?: readonly string[];
  newId: () => string;
  takeoverMs?: number;
  /** What this one plans for; default: the built-in ones. */
  schedulers?: Schedulers;
  /** Hosts that were given up, as it is now. */
  lostHosts?: () => ReadonlySet<string>;
}>;

const noRoom: Resources = Object.freeze({ memoryBytes: 0, cpuMillis: 0 });

export type EvaluationCounts = Readonly<Record<'ready' | 'waiting' | 'pending' | 'outstanding' | 'blocked', number>>;

/**
 * INVARIANTS. What is pending in the columns is with the broker; what is blocked waits for relief or is with the broker. Of a
 * kind that this scheduler does not know, and of what it cannot read, only what is pending in the columns is: others may be at all
 * else.
 */
export class Agenda {
  readonly broker: Broker;
  readonly failures = new Failures();
  readonly #options: AgendaOptions;
  readonly #blocked = new Blocked();
  readonly #triggers: Triggers;
  readonly #notes: Transaction[] = [];
  readonly #isOwn = new Map<string, boolean>();

  constructor(options: AgendaOptions) {
    this.#options = options;
    const { takeoverMs, columns, newId } = options;
    this.#triggers = new Triggers(columns);
    this.broker = new Broker({
      isOwn: (workloadId) => this.isOwn(workloadId),
      knows: (workloadId) => this.#knows(workloadId),
      areWoken: (workloadId) => this.#isBuiltIn(workloadId),
      newToken: newId,
      ...(takeoverMs === undefined ? {} : { takeoverMs }),
    });
  }

  counts(now: number): EvaluationCounts {
    return { ...this.broker.counts(now), blocked: this.#blocked.size };
  }

  get hasNotes(): boolean {
    return this.#notes.length > 0;
  }

  /** Small writes that may be lost or refused: somebody makes them again. */
  takeNotes(): Transaction[] {
    return this.#notes.splice(0);
  }

  /** Whether the workload is this scheduler's to see to. */
  isOwn(workloadId: string): boolean {
    const { id, peers, columns } = this.#options;
    // One that runs on no host takes everything.
    if (!(peers?.includes(id) ?? columns.hosts.has(id))) return true;
    const known = this.#isOwn.get(workloadId);
    if (known !== undefined) return known;
    const isOwn = isOwnWorkload(workloadId, id, peers ?? columns.hosts.keys());
    this.#isOwn.set(workloadId, isOwn);
    return isOwn;
  }

  /** Hosts came or went. */
  reassign(): void {
    this.#isOwn.clear();
    this.broker.reassign();
  }

  /** As the store has it now, and had it before. */
  foldEvaluation(after: Evaluation | undefined, before: Evaluation | undefined, now: number): void {
    if (after?.state === 'pending') {
      this.#enqueueStored(after, now);
      return;
    }
    const ended = after ?? before;
    if (ended === undefined) return;
    if (after?.state === 'blocked' && this.#isWokenSince(after)) return;
    this.broker.forget(ended.id, now);
    if (after?.state === 'blocked') this.block(after, this.#options.columns.revision, now);
    else if (this.#blocked.evaluationOf(ended.workloadId)?.id === ended.id) this.#blocked.remove(ended.workloadId);
  }

  /** Then it comes once more, though the watch tells only now that it waits. What others see to is theirs to wake. */
  #isWokenSince({ id, workloadId, createdAt, updatedAt = createdAt }: Evaluation): boolean {
    const wokenAt = this.broker.wokenAt(id);
    if (wokenAt === undefined || wokenAt < updatedAt) return false;
    return this.isOwn(workloadId) || this.broker.tokenOf(id) !== undefined;
  }

  /** `plannedAt`: the cell on which there was no room for it. */
  block(evaluation: Evaluation, plannedAt: Revision, now: number): void {
    if (!this.#knows(evaluation.workloadId)) return;
    const workload = this.#options.columns.workload(evaluation.workloadId)?.value;
    // Its workload is gone: the next look at it ends it.
    if (workload === undefined) return this.broker.enqueue(advance(evaluation, 'pending', now), now);
    const { woken, cancelled } = this.#blocked.block(evaluation, workload, plannedAt, now);
    if (woken !== undefined) this.broker.enqueue(woken, now);
    if (cancelled !== undefined && this.isOwn(evaluation.workloadId)) this.note(cancelled);
  }

  /** It was carried out, or never will be: those that came meanwhile and that the newest of them stands for are cancelled. */
  done(evaluation: Evaluation, token: string, now: number): void {
    const acked = this.broker.ack(evaluation.id, token, now);
    if (acked === false) return;
    const { stale, newest = evaluation } = acked;
    for (const one of stale) this.note(supersede(one, newest, now));
  }

  /** What the change calls for, and what it makes possible. It is folded in. */
  concern(change: CellChange, now: number): void {
    if (change.kind === 'evaluation') this.failures.learn(change.evaluationId, change.after);
    const isAwaited = (workloadId: string) => this.broker.isAwaited(workloadId, now);
    for (const trigger of this.#triggers.of(change, isAwaited)) this.#ask(trigger, now);
    this.#relieve(change, now);
  }

  /** A host was given up. */
  concernLoss(hostId: string, now: number): void {
    for (const trigger of this.#triggers.ofLoss(hostId)) this.#ask(trigger, now);
  }

  /** A plan that had room on these hosts is not carried out: no change of the cell tells of that. */
  concernDropped(hostIds: Iterable<string>, now: number): void {
    for (const hostId of hostIds) {
      const relief = reliefOn(hostId, 'freed', this.#options.columns);
      if (relief !== undefined) this.#wake({ ...relief, free: this.#freeOn(hostId) }, now);
    }
  }

  /** What no event told of: changes from before the start, and whatever was written without an evaluation. */
  repair(now: number): void {
    const { columns } = this.#options;
    for (const { value } of columns.evaluations.values()) {
      if (value.state === 'pending') this.#enqueueStored(value, now);
      else if (this.#minds(value.workloadId)) {
        this.#blocked.remove(value.workloadId);
        this.broker.enqueue(advance(value, 'pending', now), now);
      }
    }
    for (const workloadId of columns.workloadIds()) {
      if (this.#hasUnsuited(workloadId, now)) this.#ask({ workloadId, cause: 'repair' }, now);
    }
    const isQuiet = (hostId: string) => columns.hosts.has(hostId) && columns.settings.get(hostId)?.drain === undefined;
    for (const workloadId of columns.unsettledWorkloads(isQuiet)) {
      if (this.#minds(workloadId)) this.#ask({ workloadId, cause: 'repair' }, now);
      else if (this.isOwn(workloadId)) this.#askOthers(workloadId, now);
    }
  }

  /** The evaluation as it ended, if it has not ended otherwise. */
  note(end: Evaluation, more: readonly Operation[] = []): void {
    const known = this.#options.columns.evaluations.get(end.id);
    // One that only this scheduler knew of needs no end.
    const then = known === undefined && isEnded(end) ? [...more] : [evaluationWrite(end), ...more];
    if (then.length === 0) return;
    this.#notes.push({ compare: [{ key: cellKeys.evaluation(end.id), modRevision: known?.modRevision ?? 0 }], then });
  }

  /** In its workload's turn, whatever it says itself: hosts, which ask for a look when jobs end, do not know of priorities. */
  #enqueueStored(evaluation: Evaluation, now: number): void {
    const { priority = evaluation.priority } = this.#options.columns.workload(evaluation.workloadId)?.value ?? {};
    this.broker.enqueue(priority === evaluation.priority ? evaluation : { ...evaluation, priority }, now);
  }

  /** Whether it is this scheduler's and has a job where its constraints are not met. */
  #hasUnsuited(workloadId: string, now: number): boolean {
    const { columns } = this.#options;
    const workload = columns.workload(workloadId)?.value;
    if (workload === undefined || workload.constraints.length === 0 || !this.#minds(workloadId)) return false;
    return departuresOf(workload, columns.jobsOf(workloadId), columns, now).size > 0;
  }

  /** Whether this scheduler can plan for it: others may read what it cannot. What was removed needs none of its own kind. */
  #knows(workloadId: string): boolean {
    const { columns, schedulers } = this.#options;
    if (this.#isUnread(workloadId)) return false;
    const kind = columns.workload(workloadId)?.value.kind;
    return kind === undefined || schedulerFor(kind, schedulers) !== undefined;
  }

  /** Whether it looks after it unasked. Of a kind of a user's own all do that know it: whose it is may not be among them. */
  #minds(workloadId: string): boolean {
    if (this.#isUnread(workloadId)) return false;
    return this.#isBuiltIn(workloadId) ? this.isOwn(workloadId) : this.#knows(workloadId);
  }

  /** Whoever it falls to can plan for it. */
  #isBuiltIn(workloadId: string): boolean {
    const kind = this.#options.columns.workload(workloadId)?.value.kind;
    return kind === undefined || builtInSchedulers.has(kind);
  }

  #isUnread(workloadId: string): boolean {
    const { columns, lostHosts } = this.#options;
    return columns.unreadable(workloadId, lostHosts?.()) !== undefined;
  }

  #ask(trigger: Trigger, now: number): void {
    if (this.broker.isAwaited(trigger.workloadId, now) || !this.#knows(trigger.workloadId)) return;
    this.broker.enqueue(this.#made(trigger, now), now);
  }

  /** Of one whose kind it does not know nothing runs, and nothing says why: the others are asked where all of them see it. */
  #askOthers(workloadId: string, now: number): void {
    const { columns } = this.#options;
    if (columns.hasJobs(workloadId) || columns.evaluationsOf(workloadId).length > 0) return;
    if (!this.failures.has(workloadId)) this.note(this.#made({ workloadId, cause: 'repair' }, now));
  }

  #made({ workloadId, cause }: Trigger, now: number): Evaluation {
    const { newId, columns } = this.#options;
    const priority = columns.workload(workloadId)?.value.priority;
    return makeEvaluation(workloadId, cause, { now, newId }, priority === undefined ? {} : { priority });
  }

  #relieve(change: CellChange, now: number): void {
    const relief = reliefOf(change, this.#options.columns);
    if (relief === undefined) return;
    const free = change.kind === 'status' ? this.#roomOfEnded(change) : this.#freeOn(relief.hostId);
    this.#wake({ ...relief, free }, now);
  }

  #wake(relief: Relief, now: number): void {
    for (const woken of this.#blocked.relieve(relief, now)) this.broker.enqueue(woken, now);
  }

  #freeOn(hostId: string): Resources {
    const { table } = this.#options.ledger;
    const { memoryFree, cpuFree } = table.columns;
    const index = table.indexOf(hostId) ?? -1;
    return { memoryBytes: Math.max(0, memoryFree[index] ?? 0), cpuMillis: Math.max(0, cpuFree[index] ?? 0) };
  }

  /**
   * What those may take that stop others. Of one that ended by itself nothing: its workload lets it go, and may need it. Who was
   * planned for before it ended is woken all the same: the plan may have told it to stop.
   */
  #roomOfEnded({ hostId, jobId }: Extract<CellChange, { kind: 'status' }>): Resources | undefined {
    const { columns } = this.#options;
    const host = columns.hosts.get(hostId)?.value;
    if (host === undefined || !this.#blocked.hasPreemptors) return undefined;
    return columns.isToStop(hostId, jobId) ? roomComing(host, columns.jobsOn(hostId)) : noRoom;
  }
}
