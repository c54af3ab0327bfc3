/** The cell at one revision in columns: every change of the store's watch folded in, nothing kept that planning does not read. */
import type { Change, Entry, Revision } from '@flynn/store/store';
import type { CellChange } from '../cell-change.ts';
import type { Cell, JobFacts, PlacedJob, Versioned } from '../cell-view.ts';
import type { AssignedGroup, Claim, Homes, HostRecord, OperatorSettings, Workload } from '../cell.ts';
import type { Evaluation } from '../evaluation.ts';
import { cellKeys, cellPrefix } from '../cell.ts';
import { decode, parseCellKey } from './entries.ts';
import type { CellKey } from './entries.ts';
import { SharedParts } from './interned.ts';
import { JobColumns } from './job-columns.ts';
import type { AssignmentSize } from './job-columns.ts';
import { WorkloadSlots } from './workload-slots.ts';
import { UnreadEntries } from './unread-entries.ts';

const noHomes: Homes = Object.freeze({});
const noHosts: ReadonlySet<string> = new Set();

/** What stands for settings that do not decode: whether the host is cordoned or drains is not known. */
const unreadSettings: OperatorSettings = Object.freeze({ cordoned: true, tags: Object.freeze({}) });

/** And for a host's record: that it is there is known, and nothing of what it has. */
function unreadHost(id: string): HostRecord {
  const capacity = { memoryBytes: 0, cpuMillis: 0 };
  return { id, address: '', apiPort: 0, capacity, attributes: {}, cordoned: true, startedAt: 0 };
}

/**
 * INVARIANTS. What it holds depends on the entries folded in and on nothing else: no clock, no chance. An entry that does
 * not decode is left out and told to `onFault`. That is not as if it were not there: its host takes nothing new and is not
 * lost (`isUnsure`), and nothing is planned for a workload that it names (`unreadable`). But a status is: its job does not run,
 * and has not ended, for all that is known.
 */
export class CellColumns implements Cell {
  readonly hosts = new Map<string, Versioned<HostRecord>>();
  readonly settings = new Map<string, OperatorSettings>();
  readonly claims = new Map<string, Versioned<Claim>>();
  readonly #settingsRevisions = new Map<string, Revision>();
  readonly #slots = new WorkloadSlots();
  readonly #jobs = new JobColumns(this.#slots);
  /** Pending and blocked ones. */
  readonly #evaluations = new Map<string, Versioned<Evaluation>>();
  readonly #omni = new Set<string>();
  readonly #shared = new SharedParts();
  readonly #unread = new UnreadEntries();
  readonly #onFault: (key: string, error: unknown) => void;
  #revision: Revision = 0;

  constructor(options: { onFault: (key: string, error: unknown) => void }) {
    this.#onFault = options.onFault;
  }

  get revision(): Revision {
    return this.#revision;
  }

  /** Everything up to this revision has been folded in. */
  advance(revision: Revision): void {
    if (revision > this.#revision) this.#revision = revision;
  }

  /** The store's entries that are left out because they do not decode: the modRevision of each, by key. */
  get faulty(): ReadonlyMap<string, Revision> {
    return this.#unread.revisions;
  }

  unreadable(workloadId: string, lostHosts: ReadonlySet<string> = noHosts): string | undefined {
    const workload = this.workload(workloadId)?.value;
    return this.#unread.find(workloadId, ({ kind, id }) => {
      if (kind === 'workloads') return true;
      // One that was removed has its jobs stopped, whatever else it may have.
      if (workload === undefined) return false;
      return kind !== 'assignments' || !lostHosts.has(id) || isBoundToHosts(workload);
    });
  }

  isUnsure(hostId: string): boolean {
    const { revisions } = this.#unread;
    return revisions.size > 0 && (revisions.has(cellKeys.host(hostId)) || revisions.has(cellKeys.hostSettings(hostId)));
  }

  /** Undefined where nothing changed that anyone plans by. */
  fold(change: Change): CellChange | undefined {
    return change.type === 'put' ? this.#fold(change.entry.key, change.entry) : this.#fold(change.key, undefined);
  }

  #fold(text: string, entry: Entry | undefined): CellChange | undefined {
    const key = parseCellKey(text);
    if (key === undefined) return undefined;
    this.#unread.delete(text);
    if (entry === undefined) return this.#replace(key, undefined);
    try {
      return this.#replace(key, entry);
    } catch (error) {
      this.#unread.put(text, key, entry);
      this.#onFault(text, error);
      return this.#leaveOut(key, entry);
    }
  }

  #leaveOut(key: CellKey, { modRevision, createRevision }: Entry): CellChange | undefined {
    const { kind, id } = key;
    if (kind === 'hosts') {
      const after = { value: unreadHost(id), modRevision, createRevision };
      return { kind: 'host', hostId: id, ...exchange(this.hosts, id, after) };
    }
    // Evaluations of the workload end with this compared.
    if (kind === 'plans') return this.#setPlan(id, undefined, modRevision);
    const change = this.#replace(key, undefined);
    if (change?.kind !== 'settings') return change;
    this.settings.set(id, unreadSettings);
    return { ...change, after: unreadSettings };
  }

  #replace(key: CellKey, entry: Entry | undefined): CellChange | undefined {
    const { kind, id } = key;
    switch (kind) {
      case 'hosts':
        return { kind: 'host', hostId: id, ...exchange(this.hosts, id, entry && versioned(entry, decode.hosts)) };
      case 'claims':
        return { kind: 'claim', hostId: id, ...exchange(this.claims, id, entry && versioned(entry, decode.claims)) };
      case 'settings': {
        const before = this.settings.get(id);
        const after = entry && decode.settings(entry.value);
        replace(this.settings, id, after);
        replace(this.#settingsRevisions, id, entry?.modRevision);
        return { kind: 'settings', hostId: id, before, after };
      }
      case 'workloads':
        return this.#foldWorkload(id, entry);
      case 'evaluations':
        return this.#foldEvaluation(id, entry);
      case 'plans':
        return this.#setPlan(id, entry && decode.plans(entry.value).homes, entry?.modRevision ?? 0);
      case 'assignments':
        this.#jobs.setAssignment(id, key.rest, entry && decode.assignments(entry.value), entry?.modRevision ?? 0);
        return undefined;
      case 'status':
        return this.#foldStatus(key, entry);
      default:
        return kind satisfies never;
    }
  }

  #setPlan(workloadId: string, homes: Homes | undefined, planRevision: Revision): undefined {
    const number = this.#slots.take(workloadId);
    const slot = this.#slots.at(number);
    if (slot !== undefined) {
      slot.planRevision = planRevision;
      slot.homes = homes;
    }
    this.#slots.freeIfEmpty(number);
  }

  #foldWorkload(workloadId: string, entry: Entry | undefined): CellChange {
    const parsed = entry && versioned(entry, decode.workloads);
    const number = this.#slots.take(workloadId);
    const slot = this.#slots.at(number);
    const before = slot?.record?.value;
    const after = parsed && { ...parsed, value: this.#shared.workload(parsed.value) };
    if (slot !== undefined) slot.record = after;
    if (after?.value.kind === 'omni') this.#omni.add(workloadId);
    else this.#omni.delete(workloadId);
    this.#slots.freeIfEmpty(number);
    return { kind: 'workload', workloadId, before, after: after?.value };
  }

  #foldEvaluation(evaluationId: string, entry: Entry | undefined): CellChange {
    const parsed = entry && versioned(entry, decode.evaluations);
    const before = this.#evaluations.get(evaluationId);
    const isOpen = parsed?.value.state === 'pending' || parsed?.value.state === 'blocked';
    const after = isOpen ? parsed : undefined;
    replace(this.#evaluations, evaluationId, after);
    if (before !== undefined && before.value.workloadId !== after?.value.workloadId) {
      this.#setEvaluation(before.value.workloadId, evaluationId, undefined);
    }
    if (after !== undefined) this.#setEvaluation(after.value.workloadId, evaluationId, after);
    return { kind: 'evaluation', evaluationId, before: before?.value, after: parsed?.value };
  }

  #setEvaluation(workloadId: string, id: string, after: Versioned<Evaluation> | undefined): void {
    const number = this.#slots.take(workloadId);
    const slot = this.#slots.at(number);
    if (slot !== undefined) {
      const others = slot.evaluations.filter(({ value }) => value.id !== id);
      const all = after === undefined ? others : [...others, after];
      slot.evaluations = all.sort((a, b) => a.createRevision - b.createRevision || (a.value.id < b.value.id ? -1 : 1));
    }
    this.#slots.freeIfEmpty(number);
  }

  #foldStatus({ id: hostId, rest: jobId }: CellKey, entry: Entry | undefined): CellChange | undefined {
    const facts = entry && decode.status(entry.value);
    const told = this.#jobs.setStatus(hostId, jobId, facts, entry?.modRevision ?? 0);
    return told && { kind: 'status', hostId, jobId, ...told };
  }

  workload(workloadId: string): Versioned<Workload> | undefined {
    return this.#slots.find(workloadId)?.record;
  }

  *workloadIds(): Generator<string, void, undefined> {
    for (const id of this.#slots.numbers.keys()) if (this.#slots.find(id)?.record !== undefined) yield id;
  }

  omniWorkloadIds(): Iterable<string> {
    return this.#omni;
  }

  /** Pending and blocked ones, by id. */
  get evaluations(): ReadonlyMap<string, Versioned<Evaluation>> {
    return this.#evaluations;
  }

  evaluationsOf(workloadId: string): readonly Versioned<Evaluation>[] {
    return this.#slots.find(workloadId)?.evaluations ?? [];
  }

  /** The modRevision of `plans/<workload>`; 0 without. */
  planRevisionOf(workloadId: string): Revision {
    return this.#slots.find(workloadId)?.planRevision ?? 0;
  }

  homesOf(workloadId: string): Homes {
    return this.#slots.find(workloadId)?.homes ?? noHomes;
  }

  jobsOf(workloadId: string): readonly PlacedJob[] {
    return this.#jobs.jobsOf(workloadId);
  }

  endedOf(workloadId: string): readonly JobFacts[] {
    return this.#jobs.endedOf(workloadId);
  }

  jobsOn(hostId: string): readonly PlacedJob[] {
    return this.#jobs.jobsOn(hostId);
  }

  isAssigned(hostId: string, jobId: string): boolean {
    return this.#jobs.isAssigned(hostId, jobId);
  }

  /** Whether it is assigned, and told to stop. */
  isToStop(hostId: string, jobId: string): boolean {
    return this.#jobs.isToStop(hostId, jobId);
  }

  /** As the store has it but for the order of groups. */
  assignmentGroups(hostId: string, planId: string): AssignedGroup[] | undefined {
    return this.#jobs.groupsOf(hostId, planId);
  }

  assignmentSize(hostId: string, planId: string): AssignmentSize {
    return this.#jobs.sizeOf(hostId, planId);
  }

  assignmentIds(hostId: string): string[] {
    return this.#jobs.assignmentIds(hostId);
  }

  hostsWithJobs(): Iterable<string> {
    return new Set([...this.#jobs.hostsWithJobs(), ...this.#unread.assignedHosts()]);
  }

  *workloadsWithJobs(): Generator<string, void, undefined> {
    for (const id of this.#slots.numbers.keys()) if ((this.#slots.find(id)?.assigned ?? 0) > 0) yield id;
  }

  /**
   * Workloads whose jobs are not plainly those they ask for: another count or version, one that ended or is to stop, one on
   * a host that is not quiet; and all that are to have jobs on every host, which only planning can tell.
   */
  *unsettledWorkloads(isQuiet: (hostId: string) => boolean): Generator<string, void, undefined> {
    const quiet = this.#jobs.hostsThat(isQuiet);
    for (const id of this.#slots.numbers.keys()) {
      const slot = this.#slots.find(id);
      if (slot === undefined || (slot.record === undefined && slot.assigned === 0)) continue;
      const workload = slot.record?.value;
      const isCounted = workload !== undefined && workload.kind !== 'omni' && slot.assigned === workload.count;
      if (!isCounted || !this.#jobs.areAllPlain(slot, workload.version, quiet)) yield id;
    }
  }

  /** Whether anything is assigned of the workload. */
  hasJobs(workloadId: string): boolean {
    return (this.#slots.find(workloadId)?.assigned ?? 0) > 0;
  }

  /** Hosts that have statuses or assignments or ever had. */
  knownHosts(): Iterable<string> {
    return this.#jobs.knownHosts();
  }

  /** How many jobs are assigned. */
  get jobCount(): number {
    return this.#jobs.assignedCount;
  }

  /** Bytes of the columns and their indexes. */
  get columnBytes(): number {
    return this.#jobs.byteLength;
  }

  /**
   * The entries it has seen of a kind (of one host, for assignments and statuses), each with its modRevision, by key: those it
   * holds and those that do not decode.
   */
  *versions(kind: CellKey['kind'], hostId = ''): Generator<readonly [string, Revision], void, undefined> {
    const prefix = `${cellPrefix}${kind}/${hostId === '' ? '' : `${hostId}/`}`;
    for (const one of this.#unread.revisions) if (one[0].startsWith(prefix)) yield one;
    yield* this.#held(kind, hostId);
  }

  *#held(kind: CellKey['kind'], hostId: string): Generator<readonly [string, Revision], void, undefined> {
    switch (kind) {
      case 'hosts':
        for (const [id, { modRevision }] of this.hosts) yield [cellKeys.host(id), modRevision];
        return;
      case 'claims':
        for (const [id, { modRevision }] of this.claims) yield [cellKeys.claim(id), modRevision];
        return;
      case 'settings':
        for (const [id, modRevision] of this.#settingsRevisions) yield [cellKeys.hostSettings(id), modRevision];
        return;
      case 'evaluations':
        for (const [id, { modRevision }] of this.#evaluations) yield [cellKeys.evaluation(id), modRevision];
        return;
      case 'workloads':
      case 'plans':
        for (const id of this.#slots.numbers.keys()) {
          const slot = this.#slots.find(id);
          if (kind === 'plans' && slot !== undefined && slot.planRevision > 0) {
            yield [cellKeys.lastPlan(id), slot.planRevision];
          }
          if (kind === 'workloads' && slot?.record !== undefined)
            yield [cellKeys.workload(id), slot.record.modRevision];
        }
        return;
      case 'assignments':
        yield* this.#jobs.assignmentVersions(hostId);
        return;
      case 'status':
        yield* this.#jobs.statusVersions(hostId);
        return;
      default:
        kind satisfies never;
    }
  }
}

/** Its slots wait for the hosts that have their data, also for those that are lost. */
function isBoundToHosts({ demand }: Workload): boolean {
  return demand.volumes.length > 0 && demand.canLeaveVolumes !== true;
}

function versioned<T>(entry: Entry, parse: (text: string) => T): Versioned<T> {
  return { value: parse(entry.value), modRevision: entry.modRevision, createRevision: entry.createRevision };
}

function exchange<T>(
  map: Map<string, Versioned<T>>,
  key: string,
  after: Versioned<T> | undefined,
): { before: T | undefined; after: T | undefined } {
  const before = map.get(key)?.value;
  replace(map, key, after);
  return { before, after: after?.value };
}

function replace<T>(map: Map<string, T>, key: string, value: T | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}
