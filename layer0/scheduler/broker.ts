/** Which evaluation is looked at next, and by whom? */
import type { Evaluation } from './evaluation.ts';
import { goesFirst, isSooner } from './broker-line.ts';
import type { Left, Line, Outstanding, Queued } from './broker-line.ts';
import { Heap } from './heap.ts';

export type BrokerOptions = Readonly<{
  /** Other schedulers' workloads are left to them for `takeoverMs`. */
  isOwn: (workloadId: string) => boolean;
  /** Workloads that this scheduler cannot plan for are left to all others, for twice as long. Default: it can for all. */
  knows?: (workloadId: string) => boolean;
  /** Workloads that their own schedulers wake as well: woken here they are left to them for longer. Default: none. */
  areWoken?: (workloadId: string) => boolean;
  /** Default 5 s. */
  takeoverMs?: number;
  /** What is neither done nor given back after this long counts as given back. Default 60 s. */
  deliveryMs?: number;
  /** How often one evaluation is handed out before it fails. Default 3. */
  deliveryLimit?: number;
  newToken: () => string;
}>;

export type Delivery = Readonly<{
  evaluation: Evaluation;
  /** For `ack` and `nack`; good for this delivery only. */
  token: string;
  /** 1 for the first. */
  attempt: number;
}>;

/** Those that `newest` takes the place of; a rebalance is taken for newer than all else. */
type Acked = Readonly<{ stale: readonly Evaluation[]; newest: Evaluation | undefined }>;

/** What became of an evaluation that was given back. */
export type Nacked = Readonly<{ kind: 'again'; at: number } | { kind: 'failed'; evaluation: Evaluation }>;

export type BrokerCounts = Readonly<{ ready: number; waiting: number; pending: number; outstanding: number }>;

/** So much longer one that was woken is left to whose it is, who looks again every 30 s in any case. */
const wokenPatience = 12;
const nackMs = { first: 1_000, further: 20_000 };
const defaults = { knows: () => true, areWoken: () => false, takeoverMs: 5_000, deliveryMs: 60_000, deliveryLimit: 3 };

/**
 * The pending evaluations of the cell, as one scheduler hands them out. Time is an argument and never goes back.
 *
 * INVARIANTS. At most one evaluation of a workload is outstanding, and none while another of it is. Every evaluation put in
 * is handed out, or comes out as stale (`ack`), or as failed (`nack`), or was taken out by `forget`. An entry of a heap
 * that its line does not name any more is void.
 */
export class Broker {
  readonly #options: Required<BrokerOptions>;
  readonly #lines = new Map<string, Line>();
  readonly #known = new Map<string, string>();
  readonly #attempts = new Map<string, number>();
  readonly #ready = new Heap<Queued>(goesFirst);
  /** Other schedulers', by when they are taken over. */
  readonly #foreign = new Heap<Left>((a, b) => a.takenAt < b.takenAt);
  readonly #delayed = new Heap<Queued>((a, b) => a.readyAt < b.readyAt);
  readonly #deliveries = new Heap<Outstanding>((a, b) => a.until < b.until);
  #order = 0;
  #outstanding = 0;

  constructor(options: BrokerOptions) {
    this.#options = { ...defaults, ...options };
  }

  counts(now: number): BrokerCounts {
    const counts = { ready: 0, waiting: 0, pending: 0, outstanding: this.#outstanding };
    for (const { queued, pending } of this.#lines.values()) {
      counts.pending += pending.length;
      if (queued === undefined) continue;
      if (queued.readyAt <= now) counts.ready += 1;
      else counts.waiting += 1;
    }
    return counts;
  }

  has(evaluationId: string): boolean {
    return this.#known.has(evaluationId);
  }

  /** Whether one of the workload is about to be handed out: it will see whatever is so by then. */
  isAwaited(workloadId: string, now: number): boolean {
    const line = this.#lines.get(workloadId);
    if (line === undefined) return false;
    const { queued, pending } = line;
    if (queued !== undefined && queued.readyAt <= now && !this.#isLeftLong(queued.evaluation)) return true;
    return pending.some((one) => (one.waitUntil ?? 0) <= now && !this.#isLeftLong(one));
  }

  /** Handing it in twice changes nothing; one that waited and was woken while outstanding comes once more after its ack. */
  enqueue(evaluation: Evaluation, now: number): void {
    const { id, workloadId } = evaluation;
    if (this.#known.has(id)) {
      const line = this.#lines.get(workloadId);
      if (line?.outstanding?.evaluation.id === id && evaluation.updatedAt !== undefined) line.again = evaluation;
      return;
    }
    this.#known.set(id, workloadId);
    const line = this.#lines.get(workloadId) ?? {
      queued: undefined,
      outstanding: undefined,
      again: undefined,
      pending: [],
    };
    this.#lines.set(workloadId, line);
    const { queued, outstanding } = line;
    if (outstanding !== undefined) return this.#insertPending(line, evaluation);
    if (queued === undefined) return this.#queue(line, evaluation, now, evaluation.waitUntil ?? now);
    const at = evaluation.waitUntil ?? now;
    if (this.#isBefore({ evaluation, readyAt: at, order: this.#order }, queued, now)) {
      this.#insertPending(line, queued.evaluation);
      this.#queue(line, evaluation, now, at);
    } else this.#insertPending(line, evaluation);
    return undefined;
  }

  /**
   * Somebody else saw to it. Nothing happens if it is outstanding: its commit will be refused, and `ack` or `nack` follows;
   * but if it is over, it does not come once more then.
   */
  forget(evaluationId: string, now: number): void {
    const workloadId = this.#known.get(evaluationId);
    const line = workloadId === undefined ? undefined : this.#lines.get(workloadId);
    if (workloadId === undefined || line === undefined) return;
    if (line.outstanding?.evaluation.id === evaluationId) {
      line.again = undefined;
      return;
    }
    this.#drop(evaluationId);
    const at = line.pending.findIndex(({ id }) => id === evaluationId);
    if (at >= 0) line.pending.splice(at, 1);
    if (line.queued?.evaluation.id === evaluationId) {
      line.queued = undefined;
      this.#advance(line, now);
    }
    this.#dropIfEmpty(workloadId, line);
  }

  /** When it was handed in after it had waited for room, unless it has been handed out since. */
  wokenAt(evaluationId: string): number | undefined {
    const workloadId = this.#known.get(evaluationId);
    const line = workloadId === undefined ? undefined : this.#lines.get(workloadId);
    const { queued, again, pending = [] } = line ?? {};
    return [queued?.evaluation, again, ...pending].find((one) => one?.id === evaluationId)?.updatedAt;
  }

  /** Up to `limit` that are due: the highest priority first, then the oldest. Each is outstanding until it is acked or nacked. */
  dequeue(now: number, limit: number): Delivery[] {
    this.#promote(now);
    const deliveries: Delivery[] = [];
    while (deliveries.length < limit) {
      const queued = this.#ready.pop();
      if (queued === undefined) break;
      const { evaluation, readyAt } = queued;
      const line = this.#lines.get(evaluation.workloadId);
      if (line?.queued !== queued) continue;
      const takenAt = readyAt + this.#patienceMs(evaluation);
      if (takenAt > now) {
        this.#foreign.push({ queued, takenAt });
        continue;
      }
      deliveries.push(this.#deliver(line, evaluation, now));
    }
    return deliveries;
  }

  /** When there is something to do next; undefined: not by itself. `reassign` and `enqueue` make it earlier. */
  nextAt(now: number): number | undefined {
    this.#promote(now);
    if (this.#ready.size > 0) return now;
    const times = [this.#delayed.peek()?.readyAt, this.#foreign.peek()?.takenAt, this.#deliveries.peek()?.until].filter(
      (time) => time !== undefined,
    );
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** The shares of the schedulers have changed. */
  reassign(): void {
    for (const { queued } of this.#foreign.drain()) this.#ready.push(queued);
  }

  /** The token of the delivery that is out, if one is. */
  tokenOf(evaluationId: string): string | undefined {
    const workloadId = this.#known.get(evaluationId);
    const outstanding = workloadId === undefined ? undefined : this.#lines.get(workloadId)?.outstanding;
    return outstanding?.evaluation.id === evaluationId ? outstanding.token : undefined;
  }

  /**
   * It is done. Returns those of the workload that were handed in meanwhile and are stale, because the newest of them sees
   * all that they would have: to be cancelled. False when the token is not that of the delivery that is out.
   */
  ack(evaluationId: string, token: string, now: number): Acked | false {
    const found = this.#takeOutstanding(evaluationId, token);
    if (found === undefined) return false;
    const { workloadId, line, again } = found;
    this.#drop(evaluationId);
    if (again !== undefined) {
      this.#known.set(evaluationId, workloadId);
      this.#insertPending(line, again);
    }
    const due = line.pending.filter(({ waitUntil }) => (waitUntil ?? 0) <= now);
    // It does what all others do, and more.
    const newest = due.findLast(({ cause }) => cause === 'rebalance') ?? due.at(-1);
    const stale = due.filter((one) => one !== newest);
    for (const one of stale) {
      line.pending.splice(line.pending.indexOf(one), 1);
      this.#drop(one.id);
    }
    this.#advance(line, now);
    this.#dropIfEmpty(workloadId, line);
    return { stale, newest };
  }

  /** It could not be done now: again after a pause, or failed for good. False for a token that is not the delivery's. */
  nack(evaluationId: string, token: string, now: number): Nacked | false {
    const found = this.#takeOutstanding(evaluationId, token);
    if (found === undefined) return false;
    const { workloadId, line, outstanding } = found;
    const { evaluation, attempt } = outstanding;
    if (attempt >= this.#options.deliveryLimit) {
      this.#drop(evaluationId);
      this.#advance(line, now);
      this.#dropIfEmpty(workloadId, line);
      return { kind: 'failed', evaluation };
    }
    const at = now + (attempt === 1 ? nackMs.first : (attempt - 1) * nackMs.further);
    // What came meanwhile need not wait for it.
    if (line.pending.some(({ waitUntil }) => (waitUntil ?? 0) <= now)) {
      this.#advance(line, now);
      this.#insertPending(line, evaluation);
    } else this.#queue(line, evaluation, now, at);
    return { kind: 'again', at };
  }

  /** Gives back what was out for too long, unless it is known to be on its way: then its time begins anew. */
  expire(now: number, isUnderWay: (evaluationId: string) => boolean = () => false): readonly Nacked[] {
    const nacked: Nacked[] = [];
    for (let next = this.#deliveries.peek(); next !== undefined && next.until <= now; next = this.#deliveries.peek()) {
      this.#deliveries.pop();
      if (isUnderWay(next.evaluation.id)) {
        this.#renew(next, now);
        continue;
      }
      const result = this.nack(next.evaluation.id, next.token, now);
      if (result !== false) nacked.push(result);
    }
    return nacked;
  }

  #renew(delivery: Outstanding, now: number): void {
    const workloadId = this.#known.get(delivery.evaluation.id);
    const line = workloadId === undefined ? undefined : this.#lines.get(workloadId);
    if (line?.outstanding !== delivery) return;
    line.outstanding = { ...delivery, until: now + this.#options.deliveryMs };
    this.#deliveries.push(line.outstanding);
  }

  #deliver(line: Line, evaluation: Evaluation, now: number): Delivery {
    const attempt = (this.#attempts.get(evaluation.id) ?? 0) + 1;
    const token = this.#options.newToken();
    this.#attempts.set(evaluation.id, attempt);
    line.queued = undefined;
    line.outstanding = { evaluation, token, attempt, until: now + this.#options.deliveryMs };
    this.#deliveries.push(line.outstanding);
    this.#outstanding += 1;
    return { evaluation, token, attempt };
  }

  #takeOutstanding(
    evaluationId: string,
    token: string,
  ): { workloadId: string; line: Line; outstanding: Outstanding; again: Evaluation | undefined } | undefined {
    const workloadId = this.#known.get(evaluationId);
    const line = workloadId === undefined ? undefined : this.#lines.get(workloadId);
    const outstanding = line?.outstanding;
    if (workloadId === undefined || line === undefined || outstanding === undefined) return undefined;
    if (outstanding.evaluation.id !== evaluationId || outstanding.token !== token) return undefined;
    const { again } = line;
    line.outstanding = undefined;
    line.again = undefined;
    this.#outstanding -= 1;
    if (this.#outstanding === 0) this.#deliveries.drain();
    return { workloadId, line, outstanding, again };
  }

  /** The workload's turn is free: the soonest of those behind is next. */
  #advance(line: Line, now: number): void {
    if (line.queued !== undefined || line.outstanding !== undefined || line.pending.length === 0) return;
    const takenAt = (one: Evaluation): number => Math.max(one.waitUntil ?? 0, now) + this.#patienceMs(one);
    const soonest = line.pending.reduce((a, b) => (takenAt(b) < takenAt(a) ? b : a));
    line.pending.splice(line.pending.indexOf(soonest), 1);
    this.#queue(line, soonest, now, soonest.waitUntil ?? now);
  }

  #queue(line: Line, evaluation: Evaluation, now: number, at: number): void {
    this.#order += 1;
    line.queued = { evaluation, readyAt: Math.max(at, now), order: this.#order };
    if (at > now) this.#delayed.push(line.queued);
    else this.#ready.push(line.queued);
  }

  #insertPending({ pending }: Line, evaluation: Evaluation): void {
    let at = pending.length;
    while (at > 0 && (pending[at - 1]?.createdAt ?? 0) > evaluation.createdAt) at -= 1;
    pending.splice(at, 0, evaluation);
  }

  #promote(now: number): void {
    for (let next = this.#delayed.peek(); next !== undefined && next.readyAt <= now; next = this.#delayed.peek()) {
      this.#delayed.pop();
      if (this.#isCurrent(next)) this.#ready.push(next);
    }
    for (let next = this.#foreign.peek(); next !== undefined && next.takenAt <= now; next = this.#foreign.peek()) {
      this.#foreign.pop();
      if (this.#isCurrent(next.queued)) this.#ready.push(next.queued);
    }
    while (this.#deliveries.size > 0) {
      const next = this.#deliveries.peek();
      if (next === undefined || this.tokenOf(next.evaluation.id) === next.token) break;
      this.#deliveries.pop();
    }
  }

  /** What others have long for keeps nothing waiting that is taken over sooner. */
  #isBefore(one: Queued, queued: Queued, now: number): boolean {
    const [its, others] = [this.#patienceMs(one.evaluation), this.#patienceMs(queued.evaluation)];
    if (its !== others && one.readyAt <= now && queued.readyAt <= now) return its < others;
    return isSooner(one, queued, now);
  }

  /** How long others have for it. */
  #patienceMs(evaluation: Evaluation): number {
    const { isOwn, knows, takeoverMs } = this.#options;
    if (!knows(evaluation.workloadId)) return 2 * takeoverMs;
    if (this.#isLeftLong(evaluation)) return wokenPatience * takeoverMs;
    return isOwn(evaluation.workloadId) ? 0 : takeoverMs;
  }

  /** Of one that has waited for room nothing may be heard: others look, and it goes on waiting. */
  #isLeftLong({ workloadId, updatedAt }: Evaluation): boolean {
    const { isOwn, knows, areWoken } = this.#options;
    return updatedAt !== undefined && knows(workloadId) && areWoken(workloadId) && !isOwn(workloadId);
  }

  #isCurrent(queued: Queued): boolean {
    return this.#lines.get(queued.evaluation.workloadId)?.queued === queued;
  }

  #drop(evaluationId: string): void {
    this.#known.delete(evaluationId);
    this.#attempts.delete(evaluationId);
  }

  #dropIfEmpty(workloadId: string, line: Line): void {
    if (line.queued === undefined && line.outstanding === undefined && line.pending.length === 0) {
      this.#lines.delete(workloadId);
    }
  }
}
