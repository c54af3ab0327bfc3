/** Which operation runs next, on which runner, and what do the others wait for? Pure: live operations in, decisions out. */
import { createHash } from 'node:crypto';
import type { Operation } from '../model.ts';
import { hasOperationEnded } from './state.ts';
import type { OperationResource } from '../resources.ts';
import { indexOf, insert } from './sorted.ts';

export type OperationKind = Operation['kind'];

/** What the queue needs to know of a runner that asks. */
export type Taker = { id: string; labels: Readonly<Record<string, string>>; isByIdOnly: boolean };

/** The ids of a push's operations follow from it: the same push asked for twice is one chain. */
export function operationIdOf(appId: string, pushId: string, kind: OperationKind): string {
  const digest = createHash('sha256').update(`${appId}\n${pushId}`).digest('hex').slice(0, 16);
  return `${kind}-${digest}`;
}

/** build, release, deploy, each depending on the one before. */
export function chainOf(appId: string, pushId: string): { id: string; kind: OperationKind; dependsOn?: string[] }[] {
  const idOf = (kind: OperationKind) => operationIdOf(appId, pushId, kind);
  return [
    { id: idOf('build'), kind: 'build' },
    { id: idOf('release'), kind: 'release', dependsOn: [idOf('build')] },
    { id: idOf('deploy'), kind: 'deploy', dependsOn: [idOf('release')] },
  ];
}

/** Whether the runner may have it. One that takes only what names it gets nothing that any may have. */
export function canTake({ target }: OperationResource['spec'], runner: Taker): boolean {
  if (target?.runnerId !== undefined) return target.runnerId === runner.id;
  if (runner.isByIdOnly) return false;
  return Object.entries(target?.labels ?? {}).every(([name, value]) => runner.labels[name] === value);
}

type Entry = { readonly operation: OperationResource; readonly place: number };

/** Of one app: what is queued, oldest first, and what keeps it from being given away. */
type Line = {
  readonly queued: Entry[];
  /** Given to a runner, or run. */
  readonly held: Map<string, Entry>;
  /** Being given away by this very process. */
  reserved: string | undefined;
  /** The line's place among those that are ready: its first entry that waits for nothing else. */
  head: Entry | undefined;
};

/** By an app's deployment: what of the app is not given away for now. */
type KeptBack = { readonly deploymentId: string; readonly kinds: readonly OperationKind[] };

/**
 * INVARIANTS. It holds what is live and nothing else: an operation that another waits for and that is not here has
 * completed, or was allowed to fail; but for one whose record is there and cannot be read, which is waited for. Of an app
 * at most one operation is held. Oldest first: by the revision it was created at, or the one whose place it took. What
 * the app's deployment keeps back is nobody's until that lets it go.
 */
export class OperationQueue {
  readonly #entries = new Map<string, Entry>();
  readonly #lines = new Map<string, Line>();
  /** Lines with a head, by its age. */
  readonly #ready: Line[] = [];
  readonly #byRunner = new Map<string, Set<string>>();
  /** Ids of those that wait for this one. */
  readonly #waiting = new Map<string, Set<string>>();
  /** By app. */
  readonly #keptBack = new Map<string, KeptBack>();
  /** Ids of those whose record is there and cannot be read: of whose app they are, and whether one runs, nobody can say. */
  #unreadable: ReadonlySet<string> = new Set();

  get size(): number {
    return this.#entries.size;
  }

  get(id: string): OperationResource | undefined {
    return this.#entries.get(id)?.operation;
  }

  /** Ids of what the runner was given or runs. */
  heldBy(runnerId: string): ReadonlySet<string> {
    return this.#byRunner.get(runnerId) ?? new Set();
  }

  placeOf(id: string): number | undefined {
    return this.#entries.get(id)?.place;
  }

  /** Negative if the first comes before the second; what is not here comes last. */
  compare(a: string, b: string): number {
    const [one, other] = [this.#entries.get(a), this.#entries.get(b)];
    if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
    return byAge(one, other);
  }

  ofApp(appId: string): OperationResource[] {
    const line = this.#lines.get(appId);
    if (line === undefined) return [];
    return [...line.held.values(), ...line.queued].map(({ operation }) => operation);
  }

  /** Its state now; undefined once it is live no longer. */
  set(id: string, operation: OperationResource | undefined, createRevision: number): void {
    const before = this.#entries.get(id);
    const appId = (operation ?? before?.operation)?.spec.appId;
    if (appId === undefined) return;
    const line = this.#lineOf(appId);
    this.#remove(line, before);
    if (operation === undefined || hasOperationEnded(operation.status.state)) this.#entries.delete(id);
    else this.#add(line, { operation, place: operation.status.place ?? createRevision });
    line.reserved = undefined;
    this.#settle(appId, line);
    if ((before === undefined) !== (operation === undefined)) this.#settleWaiting(id);
  }

  /** All of those whose record cannot be read by now: what waits for one of them goes on waiting. */
  setUnreadable(ids: ReadonlySet<string>): void {
    const changed = this.#unreadable.symmetricDifference(ids);
    this.#unreadable = ids;
    for (const id of changed) this.#settleWaiting(id);
  }

  /** The oldest this runner may have, or nothing. It is nobody else's until it changes or is let go. */
  reserve(runner: Taker): OperationResource | undefined {
    let best: Entry | undefined;
    for (const line of this.#ready) {
      if (best !== undefined && line.head !== undefined && byAge(best, line.head) < 0) break;
      const found = line.queued.find(({ operation }) => this.#isFree(operation) && canTake(operation.spec, runner));
      if (found !== undefined && (best === undefined || byAge(found, best) < 0)) best = found;
    }
    if (best === undefined) return undefined;
    const { appId } = best.operation.spec;
    const line = this.#lineOf(appId);
    line.reserved = best.operation.id;
    this.#settle(appId, line);
    return best.operation;
  }

  letGo({ id, spec }: OperationResource): void {
    const line = this.#lineOf(spec.appId);
    if (line.reserved === id) line.reserved = undefined;
    this.#settle(spec.appId, line);
  }

  /** For as long as the deployment keeps operations of these kinds from being done; of none, once it does no longer. */
  keepBack(appId: string, deploymentId: string, kinds: readonly OperationKind[]): void {
    if (kinds.length > 0) this.#keptBack.set(appId, { deploymentId, kinds });
    else if (this.#keptBack.get(appId)?.deploymentId === deploymentId) this.#keptBack.delete(appId);
    const line = this.#lines.get(appId);
    if (line !== undefined) this.#settle(appId, line);
  }

  /** The deployment that a queued operation is not given away for. */
  keptBackBy(id: string): string | undefined {
    const operation = this.#entries.get(id)?.operation;
    return operation?.status.state === 'queued' ? this.#keeperOf(operation) : undefined;
  }

  /** For people; undefined for what runs and what is not here. */
  whyWaits(id: string, runners: Iterable<Taker>): string | undefined {
    const operation = this.#entries.get(id)?.operation;
    if (operation === undefined || operation.status.state === 'running') return undefined;
    if (operation.status.state === 'waiting') return `runner ${operation.status.runnerId ?? ''} to begin it`;
    const before = (operation.spec.dependsOn ?? []).filter((other) => this.#isAwaited(other));
    const lost = before.find((other) => this.#unreadable.has(other));
    if (lost !== undefined) return `${lost}, whose record cannot be read: flynn status tells what to do about it`;
    if (before.length > 0) return before.join(', ');
    const line = this.#lineOf(operation.spec.appId);
    const [held] = line.held.values();
    if (held !== undefined) return `${held.operation.id}: operations of an app go one at a time`;
    const keeper = this.#keeperOf(operation);
    if (keeper !== undefined) return `deployment ${keeper} of the app, which goes on: see flynn deployment`;
    const takers = [...runners].filter((runner) => canTake(operation.spec, runner));
    if (takers.length === 0) return noRunnerText(operation.spec.target);
    if (line.head !== undefined && line.head.operation.id !== id) return `${line.head.operation.id}, which came first`;
    return 'a runner that is free';
  }

  #lineOf(appId: string): Line {
    let line = this.#lines.get(appId);
    if (line === undefined) {
      line = { queued: [], held: new Map(), reserved: undefined, head: undefined };
      this.#lines.set(appId, line);
    }
    return line;
  }

  #isFree(operation: OperationResource): boolean {
    const { dependsOn = [] } = operation.spec;
    return dependsOn.every((other) => !this.#isAwaited(other)) && this.#keeperOf(operation) === undefined;
  }

  #isAwaited(id: string): boolean {
    return this.#entries.has(id) || this.#unreadable.has(id);
  }

  #keeperOf({ spec, status }: OperationResource): string | undefined {
    // Of what was begun by a runner that gave it back the deployment may be its own.
    if (status.handover !== undefined) return undefined;
    const keptBack = this.#keptBack.get(spec.appId);
    return keptBack?.kinds.includes(spec.kind) === true ? keptBack.deploymentId : undefined;
  }

  #add(line: Line, entry: Entry): void {
    const { id, spec, status } = entry.operation;
    this.#entries.set(id, entry);
    for (const other of spec.dependsOn ?? []) addTo(this.#waiting, other, id);
    if (status.state === 'queued') insert(line.queued, entry, byAge);
    else {
      line.held.set(id, entry);
      addTo(this.#byRunner, status.runnerId ?? '', id);
    }
  }

  #remove(line: Line, entry: Entry | undefined): void {
    if (entry === undefined) return;
    const { id, spec, status } = entry.operation;
    line.held.delete(id);
    removeFrom(this.#byRunner, status.runnerId ?? '', id);
    const at = indexOf(line.queued, entry, byAge);
    if (at !== undefined) line.queued.splice(at, 1);
    for (const other of spec.dependsOn ?? []) removeFrom(this.#waiting, other, id);
  }

  /** Of what waits for this one, which came or went. */
  #settleWaiting(id: string): void {
    for (const waiting of this.#waiting.get(id) ?? []) {
      const appId = this.#entries.get(waiting)?.operation.spec.appId;
      if (appId !== undefined) this.#settle(appId, this.#lineOf(appId));
    }
  }

  /** Puts the line where it belongs among those that are ready. */
  #settle(appId: string, line: Line): void {
    if (line.head !== undefined) {
      const at = indexOf(this.#ready, line, byHead);
      if (at !== undefined) this.#ready.splice(at, 1);
    }
    const isBlocked = line.held.size > 0 || line.reserved !== undefined;
    line.head = isBlocked ? undefined : line.queued.find(({ operation }) => this.#isFree(operation));
    if (line.head !== undefined) insert(this.#ready, line, byHead);
    if (line.queued.length === 0 && line.held.size === 0) this.#lines.delete(appId);
  }
}

function addTo(sets: Map<string, Set<string>>, key: string, id: string): void {
  const ids = sets.get(key);
  if (ids === undefined) sets.set(key, new Set([id]));
  else ids.add(id);
}

function removeFrom(sets: Map<string, Set<string>>, key: string, id: string): void {
  const ids = sets.get(key);
  ids?.delete(id);
  if (ids?.size === 0) sets.delete(key);
}

function noRunnerText(target: Operation['target']): string {
  if (target?.runnerId !== undefined) return `runner ${target.runnerId}, which is not there`;
  const labels = Object.entries(target?.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  return labels.length === 0 ? 'a runner: none is there' : `a runner with ${labels.join(', ')}: none is there`;
}

/** Of those created at once in the order they were given. */
function byAge(a: Entry, b: Entry): number {
  if (a.place !== b.place) return a.place - b.place;
  const [one, other] = [a.operation, b.operation];
  const ranks = (one.status.rank ?? 0) - (other.status.rank ?? 0);
  if (ranks !== 0) return ranks;
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

function byHead(a: Line, b: Line): number {
  if (a.head === undefined || b.head === undefined) return 0;
  return byAge(a.head, b.head);
}
