/**
 * A scheduler without its surroundings: changes of the cell and answers of the store go in, batches for the store come out.
 * Nothing waits in here, and time and chance are passed in: what runs in production runs in the simulator too.
 */
import { messageOf } from '@flynn/kit/errors';
import type { ChangeBatch, Transaction, TransactionResult } from '@flynn/store/store';
import { Agenda } from './agenda.ts';
import type { EvaluationCounts } from './agenda.ts';
import type { Delivery } from './broker.ts';
import { dueAt, pauseAfter, waitOf } from './course.ts';
import type { Course } from './course.ts';
import type { CellChange } from './cell-change.ts';
import type { Evaluation } from './evaluation.ts';
import { CellColumns } from './columns/cell-columns.ts';
import { Committer } from './committer.ts';
import type { Settled } from './committer.ts';
import type { Batch, Fence } from './commit.ts';
import { evaluationWrite, giveUp } from './evaluations.ts';
import { Ledger } from './ledger.ts';
import { LossWatch } from './loss-watch.ts';
import { HostTable } from './placement/host-table.ts';
import type { Outcome, Plan, PlanContext } from './plan.ts';
import { schedule } from './schedulers/scheduler.ts';
import type { Schedulers } from './schedulers/scheduler.ts';

export type CoreOptions = Readonly<{
  /** The host it runs on; its share of the workloads follows from that. */
  id: string;
  /** All schedulers there are, if not one on every host. */
  peers?: readonly string[];
  newId: () => string;
  random: () => number;
  /** What a person should know. */
  tell: (level: 'info' | 'warn' | 'error', message: string, facts: Readonly<Record<string, unknown>>) => void;
  schedulers?: Schedulers;
  fence?: Fence;
  takeoverMs?: number;
  lossGraceMs?: number;
  lossHoldMs?: number;
  repairMs?: number;
  lingerMs?: number;
  maxInFlight?: number;
  maxOperations?: number;
}>;

/** More plans than that under way are made on guesses; of small ones it takes many to keep the store busy. */
const maxQueued = { large: 64, small: 512, hosts: 2_048 };
const maxRefusals = 8;
/**
 * INVARIANTS. An evaluation that is handed out is planned, and acked or nacked in the end; until its commit is folded into
 * the columns no other of its workload is. Safety rests on the compares alone: whose workload it is only saves work.
 */
export class SchedulerCore {
  readonly columns: CellColumns;
  readonly ledger = new Ledger(new HostTable());
  readonly committer: Committer;
  readonly counts = { evaluations: 0, refits: 0, gaveUp: 0 };
  readonly #options: CoreOptions;
  readonly #agenda: Agenda;
  readonly #losses: LossWatch;
  readonly #courses = new Map<string, Course>();
  readonly #plans = new Map<Plan, Course>();
  readonly #retired = new Set<string>();
  /** Plans that had room on hosts, and were not carried out or not all of them. */
  #drops = 0;
  #repairAt = 0;
  #isOpen = false;

  constructor(options: CoreOptions) {
    this.#options = options;
    const { tell } = options;
    this.columns = new CellColumns({
      onFault: (key, error) => tell('error', `${key} is not what it should be: ${messageOf(error)}`, { key }),
    });
    this.committer = new Committer({ ...options, columns: this.columns, ledger: this.ledger });
    this.#losses = new LossWatch(options);
    const lostHosts = () => this.#losses.lost;
    this.#agenda = new Agenda({ ...options, columns: this.columns, ledger: this.ledger, lostHosts });
  }

  /** Evaluations by where they stand. */
  evaluationCounts(now: number): EvaluationCounts {
    return this.#agenda.counts(now);
  }

  /** Why hosts that are away are not given up, if so. */
  get suspicion(): string | undefined {
    return this.#losses.suspicion;
  }

  /** Whether the workload is this scheduler's to see to. */
  isOwnWorkload(workloadId: string): boolean {
    return this.#agenda.isOwn(workloadId);
  }

  /** For another plan on its way. */
  get #hasRoom(): boolean {
    const { queued, queuedHosts } = this.committer;
    return queued < maxQueued.large || (queued < maxQueued.small && queuedHosts < maxQueued.hosts);
  }

  /** Nothing under way, and nothing to do that is not for later. */
  isIdle(now: number): boolean {
    const { ready, outstanding } = this.#agenda.counts(now);
    return ready + outstanding + this.#courses.size + this.committer.queued === 0 && !this.#agenda.hasNotes;
  }

  /** The first listing is folded in: from here on changes are news. */
  open(now: number): void {
    this.#isOpen = true;
    this.#reassign();
    this.#repair(now);
  }

  fold({ revision, changes }: ChangeBatch, now: number): void {
    const told: CellChange[] = [];
    for (const change of changes) {
      const one = this.columns.fold(change);
      if (one === undefined) continue;
      told.push(one);
      if (one.kind === 'host' || one.kind === 'settings') this.ledger.followHost(one.hostId, this.columns);
      if (one.kind === 'host' && one.after !== undefined) this.#losses.found(one.hostId);
      if (one.kind === 'workload' && one.before !== undefined && one.before.version !== one.after?.version) {
        this.#retired.add(one.workloadId);
      }
    }
    this.columns.advance(revision);
    for (const one of told) {
      if (one.kind === 'claim') this.ledger.followClaim(one.hostId, this.columns);
      if (one.kind === 'evaluation') this.#agenda.foldEvaluation(one.after, one.before, now);
    }
    if (!this.#isOpen) return;
    const isHostChange = (one: CellChange) =>
      one.kind === 'host' && (one.before === undefined) !== (one.after === undefined);
    if (told.some(isHostChange)) this.#reassign();
    for (const one of told) this.#agenda.concern(one, now);
  }

  /** Hosts came or went. */
  #reassign(): void {
    this.#agenda.reassign();
    this.#losses.disturb();
    this.ledger.setHome(this.#options.id, this.#options.peers);
  }

  /** Everything that is due: call it before asking for batches. */
  step(now: number): void {
    if (!this.#isOpen) return;
    this.#findLosses(now);
    if (now >= this.#repairAt) this.#repair(now);
    this.#settle(now);
    // A store that does not answer for a minute still may: the same again beside it would only be in its way.
    for (const nacked of this.#agenda.broker.expire(now, (id) => this.#courses.has(id))) {
      if (nacked.kind === 'failed') this.#giveUp(nacked.evaluation, 'it was not carried out in time', now);
    }
    this.#proceed(now);
    while (this.#hasRoom) {
      const [delivery] = this.#agenda.broker.dequeue(now, 1);
      if (delivery === undefined) return;
      this.#begin(delivery, now);
    }
  }

  /** The next batch to send; answer with `answered`, or `tooLarge`. */
  nextBatch(now: number): Batch | undefined {
    const batch = this.committer.next(now);
    this.#settle(now);
    return batch;
  }

  answered(batch: Batch, answer: TransactionResult, now: number): void {
    this.committer.settle(batch, answer);
    this.#settle(now);
  }

  tooLarge(batch: Batch, reason: string, now: number): void {
    this.committer.tooLarge(batch, reason);
    this.#settle(now);
  }

  /** Workloads that were removed or have another version since the last call: they leave templates behind. */
  takeRetired(): string[] {
    const retired = [...this.#retired];
    this.#retired.clear();
    return retired;
  }

  /** Small writes that may be lost or refused: somebody makes them again. */
  takeNotes(): Transaction[] {
    return this.#agenda.takeNotes();
  }

  /** When to call `step` although nothing else happens. */
  nextAt(now: number): number {
    let at = Math.min(this.#repairAt, this.#losses.nextAt, this.committer.nextAt(now) ?? Infinity);
    if (this.#hasRoom) at = Math.min(at, this.#agenda.broker.nextAt(now) ?? Infinity);
    for (const course of this.#courses.values()) at = Math.min(at, dueAt(course, this.columns.revision));
    return at;
  }

  #begin(delivery: Delivery, now: number): void {
    const { evaluation } = delivery;
    this.counts.evaluations += 1;
    const isStored = this.columns.evaluations.has(evaluation.id);
    const course: Course = { delivery, isStored, plannedAt: 0, dropsBefore: 0, refusals: 0, waits: undefined };
    this.#courses.set(evaluation.id, course);
    this.#plan(course, now);
  }

  #plan(course: Course, now: number): void {
    const { evaluation } = course.delivery;
    const known = this.columns.evaluations.get(evaluation.id);
    course.plannedAt = this.columns.revision;
    course.dropsBefore = this.#drops;
    course.waits = undefined;
    let plan: Plan;
    try {
      const asked = known?.value.state === 'pending' ? known.value : evaluation;
      plan = this.#agenda.failures.marked(schedule(asked, this.columns, this.#context(now)));
    } catch (error) {
      // What it had claimed by then is nobody's.
      this.#refreshAll();
      this.#options.tell('error', `could not plan for ${evaluation.workloadId}: ${messageOf(error)}`, {
        err: error,
        workloadId: evaluation.workloadId,
      });
      this.#giveBack(course, messageOf(error), now);
      return;
    }
    this.#plans.set(plan, course);
    this.committer.submit(plan, now);
  }

  #context(now: number): PlanContext {
    const { newId, random, schedulers } = this.#options;
    return {
      now,
      newId,
      random,
      lostHosts: this.#losses.lost,
      table: this.ledger.table,
      ...(schedulers === undefined ? {} : { schedulers }),
    };
  }

  #settle(now: number): void {
    for (const settled of this.committer.takeSettled()) {
      const course = this.#plans.get(settled.plan);
      this.#plans.delete(settled.plan);
      if (course !== undefined) this.#settleOne(course, settled, now);
    }
  }

  #settleOne(course: Course, { plan, state, revision, reason }: Settled, now: number): void {
    const { evaluation } = course.delivery;
    if (state === 'impossible' || state === 'refused') this.#noteDrop(plan, now);
    if (state === 'impossible') return this.#giveUpCourse(course, reason ?? 'it cannot be written', now);
    if (state === 'refused') {
      course.refusals += 1;
      this.counts.refits += 1;
      course.waits = waitOf('plan', revision, now, pauseAfter(course.refusals, this.#options.random));
      if (course.refusals > maxRefusals) {
        const { workloadId } = evaluation;
        this.#options.tell('info', `the cell changes too fast to place ${workloadId}, trying again`, { workloadId });
        return this.#giveBack(course, 'the cell kept changing', now);
      }
      return this.#proceedOne(course, now);
    }
    course.waits = waitOf('done', revision, now);
    for (const outcome of plan.outcomes) this.#tellOutcome(outcome, course, state === 'committed', now);
    return this.#proceedOne(course, now);
  }

  /** The room it had held is anybody's again: of those that wait, and of those that are about to. */
  #noteDrop({ hosts }: Plan, now: number): void {
    const held = [...hosts].filter(([, { add }]) => add.length > 0).map(([hostId]) => hostId);
    if (held.length === 0) return;
    this.#drops += 1;
    this.#agenda.concernDropped(held, now);
  }

  #tellOutcome({ end, created }: Outcome, course: Course, isNews: boolean, now: number): void {
    // Where room was dropped since, no revision tells whether the plan had seen it.
    const plannedAt = course.dropsBefore === this.#drops ? course.plannedAt : 0;
    for (const evaluation of [end, ...created]) {
      if (evaluation.state !== 'blocked') continue;
      this.#agenda.block(evaluation, plannedAt, now);
      const { workloadId, reason } = evaluation;
      if (isNews) this.#options.tell('info', `${workloadId} waits: ${reason ?? ''}`, { workloadId, reason });
    }
  }

  /** Goes on with what waited for the columns. */
  #proceed(now: number): void {
    for (const course of this.#courses.values()) this.#proceedOne(course, now);
  }

  #proceedOne(course: Course, now: number): void {
    if (now < dueAt(course, this.columns.revision)) return;
    // Somebody else saw to it: it was in the store, and has ended there.
    const isMoot = course.isStored && !this.columns.evaluations.has(course.delivery.evaluation.id);
    if (course.waits?.next === 'done' || isMoot) this.#finish(course, now);
    else this.#plan(course, now);
  }

  #finish(course: Course, now: number): void {
    const { evaluation, token } = course.delivery;
    this.#courses.delete(evaluation.id);
    this.#agenda.done(evaluation, token, now);
  }

  #giveBack(course: Course, reason: string, now: number): void {
    const { evaluation, token } = course.delivery;
    this.#courses.delete(evaluation.id);
    const nacked = this.#agenda.broker.nack(evaluation.id, token, now);
    if (nacked !== false && nacked.kind === 'failed') this.#giveUp(evaluation, reason, now);
  }

  #giveUpCourse(course: Course, reason: string, now: number): void {
    const { evaluation, token } = course.delivery;
    this.#courses.delete(evaluation.id);
    this.#agenda.done(evaluation, token, now);
    this.#giveUp(evaluation, reason, now);
  }

  #giveUp(evaluation: Evaluation, reason: string, now: number): void {
    const { newId, random, tell } = this.#options;
    const { workloadId } = evaluation;
    this.counts.gaveUp += 1;
    tell('warn', `gave up on an evaluation of ${workloadId}: ${reason}`, { workloadId, evaluationId: evaluation.id });
    const hasWorkload = this.columns.workload(workloadId) !== undefined;
    const { end, followUp } = giveUp(evaluation, reason, { now, newId, random, hasWorkload });
    this.#agenda.note(end, followUp === undefined ? [] : [evaluationWrite(followUp)]);
  }

  #refreshAll(): void {
    for (const hostId of this.columns.hosts.keys()) this.ledger.refresh(hostId);
  }

  #findLosses(now: number): void {
    const { tell } = this.#options;
    const { fresh, suspicion } = this.#losses.look(this.columns, now);
    if (suspicion !== undefined) tell('warn', suspicion, {});
    for (const hostId of fresh) {
      tell('warn', `host ${hostId} is lost: its work is placed elsewhere`, { hostId });
      this.#agenda.concernLoss(hostId, now);
    }
  }

  #repair(now: number): void {
    this.#repairAt = now + (this.#options.repairMs ?? 30_000);
    this.#losses.disturb();
    this.#agenda.repair(now);
  }
}
