/** Which evaluations wait for room, and which change may help them? */
import type { Constraint, Workload } from './cell.ts';
import type { Resources } from './resources.ts';
import type { Evaluation } from './evaluation.ts';
import type { Revision } from '@flynn/store/store';
import { advance, supersede } from './evaluations.ts';
import { mayPreempt } from './preemption.ts';
import { hostAttribute, passes } from './placement/host-classes.ts';
import type { Attributes } from './placement/host-classes.ts';
import { isBeyondHost } from './placement/request.ts';

/** What may be missing; `closed`: hosts there are, but cordoned or too small; `volume`: the host with the data. */
export const dimensions = ['memory', 'cpu', 'port', 'constraint', 'closed', 'volume'] as const;
export type Dimension = (typeof dimensions)[number];

/** Something got better on a host. */
export type Relief = Readonly<{
  hostId: string;
  attributes: Attributes;
  /** What of the host is free now, or for `ended` could be taken, if that is known: what does not fit is not woken. */
  free?: Resources | undefined;
  /** `freed`: jobs were released. `opened`: the host is new, is back, or has changed. `ended`: a job has. */
  kind: 'freed' | 'opened' | 'ended';
  revision: Revision;
}>;

/** What a waiting evaluation is about; without a workload it waits for nothing. */
export type BlockedWorkload = Pick<Workload, 'demand' | 'constraints' | 'priority' | 'mayPreempt'>;

type Entry = Readonly<{
  evaluation: Evaluation;
  workload: BlockedWorkload;
  missing: ReadonlySet<Dimension>;
  /** Whether hosts it may go to cannot be told by their class: every change may help. */
  isEscaped: boolean;
}>;

/**
 * Those that one change wakes go one after the other, in the same order at every scheduler: each sees by then what the ones before
 * took. All at once they would be at the same room, each by its own scheduler, and all but one be refused.
 */
const stepMs = 5;
const mostSteps = 20;

function inTurn(a: Evaluation, b: Evaluation): number {
  return b.priority - a.priority || a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1);
}

function stepsBefore(one: Evaluation, all: readonly Evaluation[]): number {
  let steps = 0;
  for (const other of all) {
    if (other === one || inTurn(other, one) > 0) continue;
    steps += 1;
    if (steps === mostSteps) break;
  }
  return steps;
}

const onRelief: Readonly<Record<Exclude<Relief['kind'], 'opened'>, readonly Dimension[]>> = {
  freed: ['memory', 'cpu', 'port', 'constraint'],
  ended: ['memory', 'cpu'],
};

function wokenAfter(steps: number, one: Evaluation, now: number): Evaluation {
  const woken = advance(one, 'pending', now);
  return steps === 0 ? woken : { ...woken, waitUntil: now + steps * stepMs };
}

/**
 * INVARIANTS. One evaluation per workload: the newest. Each is woken once until it is put in again. Whatever may have become
 * possible since the state an evaluation was planned on is made up for when it is put in: between planning and here nothing
 * is missed.
 */
export class Blocked {
  readonly #entries = new Map<string, Entry>();
  /** Per class of hosts: by what is missing, the workloads that may go there. */
  readonly #classes = new Map<string, Map<Dimension, Set<string>>>();
  /** Workloads whose evaluation is looked at, or about to be, by this scheduler or another one. */
  readonly #woken = new Set<string>();
  readonly #attributesOf = new Map<string, Attributes>();
  readonly #escaped = new Set<string>();
  /** Workloads that may take the room of jobs that were told to stop. */
  readonly #preemptors = new Set<string>();
  /** The last relief of each kind of change per class, for evaluations that were planned before it. */
  readonly #reliefs = new Map<string, Map<Relief['kind'], Relief>>();
  readonly #asked = new Set<string>();
  /** Reliefs up to here are not told apart any more. */
  #forgottenAt: Revision = 0;

  /** How many wait that were not woken. */
  get size(): number {
    return this.#entries.size - this.#woken.size;
  }

  get hasPreemptors(): boolean {
    return this.#preemptors.size > 0;
  }

  evaluationOf(workloadId: string): Evaluation | undefined {
    return this.#entries.get(workloadId)?.evaluation;
  }

  /**
   * Keeps a blocked evaluation that was planned on the cell at `plannedAt`. `woken`: it is pending again at once, since
   * something has become better meanwhile. `cancelled`: an older one of the workload (or this one, if it is the older).
   */
  block(
    evaluation: Evaluation,
    workload: BlockedWorkload,
    plannedAt: Revision,
    now: number,
  ): { woken: Evaluation | undefined; cancelled: Evaluation | undefined } {
    const known = this.#entries.get(evaluation.workloadId);
    if (known !== undefined && known.evaluation.id !== evaluation.id) {
      if (known.evaluation.createdAt > evaluation.createdAt) {
        return { woken: undefined, cancelled: supersede(evaluation, known.evaluation, now) };
      }
    }
    this.remove(evaluation.workloadId);
    const cancelled =
      known === undefined || known.evaluation.id === evaluation.id
        ? undefined
        : supersede(known.evaluation, evaluation, now);
    const entry = entryOf(evaluation, workload);
    if (!entry.isEscaped) this.#ask(workload.constraints);
    if (this.#wasMissed(entry, plannedAt)) return { woken: advance(evaluation, 'pending', now), cancelled };
    this.#insert(entry);
    return { woken: undefined, cancelled };
  }

  /** The workload's, if it has one: it ended, or is looked at for another reason. */
  remove(workloadId: string): void {
    if (!this.#entries.delete(workloadId)) return;
    this.#woken.delete(workloadId);
    this.#escaped.delete(workloadId);
    this.#preemptors.delete(workloadId);
    for (const byDimension of this.#classes.values()) for (const ids of byDimension.values()) ids.delete(workloadId);
  }

  /**
   * What the change may help and was not woken before, pending again. Where there are several each waits until those before it, the
   * highest priority first, then the oldest, have had theirs: also those of other schedulers, and who was woken before.
   */
  relieve(relief: Relief, now: number): Evaluation[] {
    const key = this.#classOf(relief.attributes);
    const reliefs = this.#reliefs.get(key) ?? new Map<Relief['kind'], Relief>();
    this.#reliefs.set(key, reliefs.set(relief.kind, relief));
    // Where many hosts come at once all are woken by the first of them: the others need not be compared with each.
    if (this.size === 0) return [];
    const candidates = this.#candidates(key, relief);
    const fresh = this.#helped(candidates, relief, { areWoken: false }).sort(inTurn);
    if (fresh.length === 0) return [];
    const helped = [...fresh, ...this.#helped(candidates, relief, { areWoken: true })];
    for (const { workloadId } of fresh) this.#woken.add(workloadId);
    return fresh.map((one) => wokenAfter(stepsBefore(one, helped), one, now));
  }

  /** Of those that were woken before, or of the others. */
  #helped(candidates: Iterable<string>, relief: Relief, { areWoken }: { areWoken: boolean }): Evaluation[] {
    const found: Evaluation[] = [];
    for (const workloadId of candidates) {
      if (this.#woken.has(workloadId) !== areWoken) continue;
      const entry = this.#entries.get(workloadId);
      if (entry !== undefined && mayHelp(entry, relief)) found.push(entry.evaluation);
    }
    return found;
  }

  #insert(entry: Entry): void {
    const { workloadId } = entry.evaluation;
    this.#entries.set(workloadId, entry);
    if (mayPreempt(entry.workload)) this.#preemptors.add(workloadId);
    if (entry.isEscaped) {
      this.#escaped.add(workloadId);
      return;
    }
    for (const key of this.#classes.keys()) this.#indexIn(key, entry);
  }

  #indexIn(key: string, { evaluation, workload, missing }: Entry): void {
    const byDimension = this.#classes.get(key);
    const attributes = this.#attributesOf.get(key);
    if (byDimension === undefined || attributes === undefined) return;
    if (!isEligible(workload.constraints, attributes)) return;
    for (const dimension of missing) {
      const ids = byDimension.get(dimension) ?? new Set();
      byDimension.set(dimension, ids.add(evaluation.workloadId));
    }
  }

  #candidates(key: string, { kind }: Relief): ReadonlySet<string> {
    if (kind === 'ended') return this.#preemptors;
    const byDimension = this.#classes.get(key);
    const found = new Set(this.#escaped);
    for (const dimension of kind === 'opened' ? dimensions : onRelief[kind]) {
      for (const workloadId of byDimension?.get(dimension) ?? []) found.add(workloadId);
    }
    return found;
  }

  /** Hosts that no constraint of a waiting workload tells apart are one class. */
  #classOf(attributes: Attributes): string {
    const key = JSON.stringify([...this.#asked].map((name) => attributes[name] ?? null));
    if (!this.#classes.has(key)) {
      this.#classes.set(key, new Map());
      this.#attributesOf.set(key, attributes);
      for (const entry of this.#entries.values()) if (!entry.isEscaped) this.#indexIn(key, entry);
    }
    return key;
  }

  /** A new attribute tells hosts apart that were one class: classes are made anew, and what they got is not known any more. */
  #ask(constraints: readonly Constraint[]): void {
    const fresh = constraints.filter(({ attribute }) => !this.#asked.has(attribute));
    if (fresh.length === 0) return;
    for (const { attribute } of fresh) this.#asked.add(attribute);
    for (const byKind of this.#reliefs.values()) {
      for (const { revision } of byKind.values()) this.#forgottenAt = Math.max(this.#forgottenAt, revision);
    }
    for (const map of [this.#classes, this.#attributesOf, this.#reliefs]) map.clear();
  }

  /** A class remembers its last change only: which host that was, and whether it had room, is then not asked. */
  #wasMissed(entry: Entry, plannedAt: Revision): boolean {
    if (this.#forgottenAt > plannedAt) return true;
    const constraints = entry.workload.constraints.filter(({ attribute }) => attribute !== hostAttribute);
    const ofAnyHost = { ...entry, workload: { ...entry.workload, constraints } };
    for (const byKind of this.#reliefs.values()) {
      for (const relief of byKind.values()) {
        if (relief.revision <= plannedAt) continue;
        if (mayHelp(ofAnyHost, { ...relief, free: entry.workload.demand })) return true;
      }
    }
    return false;
  }
}

/** What an evaluation's obstacles are about. */
export function dimensionsOf({ obstacles = {}, reason = '' }: Evaluation): ReadonlySet<Dimension> {
  const found = new Set<Dimension>(Object.keys(obstacles).map(dimensionOf));
  if (reason.includes('volume data is on')) found.add('volume');
  // "There is no host": any may help.
  if (found.size === 0) for (const dimension of dimensions) found.add(dimension);
  return found;
}

function dimensionOf(obstacle: string): Dimension {
  if (obstacle === 'memory' || obstacle === 'cpu') return obstacle;
  if (obstacle === 'cordoned' || isBeyondHost(obstacle)) return 'closed';
  return /^port \d+ is taken$/.test(obstacle) ? 'port' : 'constraint';
}

function entryOf(evaluation: Evaluation, workload: BlockedWorkload): Entry {
  const isEscaped = workload.constraints.some(
    ({ operator, attribute }) => operator === 'distinct' || attribute === hostAttribute,
  );
  return { evaluation, workload, missing: dimensionsOf(evaluation), isEscaped };
}

/** What a host's class does not tell. */
function mayHelp({ workload, missing, isEscaped }: Entry, { kind, free, attributes, hostId }: Relief): boolean {
  if (kind === 'ended' && !mayPreempt(workload)) return false;
  if (kind !== 'opened' && !onRelief[kind].some((dimension) => missing.has(dimension))) return false;
  const own = isEscaped ? { ...attributes, [hostAttribute]: hostId } : attributes;
  if (!isEligible(workload.constraints, own)) return false;
  if (free === undefined) return true;
  return workload.demand.memoryBytes <= free.memoryBytes && workload.demand.cpuMillis <= free.cpuMillis;
}

function isEligible(constraints: readonly Constraint[], attributes: Attributes): boolean {
  return constraints.every((one) => passes(one, attributes[one.attribute]));
}
