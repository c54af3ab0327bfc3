/** Assignments and statuses folded into rows, and read again as jobs of a workload or of a host. */
import type { AssignedGroup, Assignment } from '../cell.ts';
import { cellKeys } from '../cell.ts';
import type { JobFacts, PlacedJob } from '../cell-view.ts';
import { AssignmentRows } from './assignment-rows.ts';
import type { StatusFacts } from './entries.ts';
import { Shapes } from './interned.ts';
import { JobRows, noRow } from './job-rows.ts';
import type { WorkloadSlot, WorkloadSlots } from './workload-slots.ts';

type Told = Readonly<{ workloadId: string; before: JobFacts | undefined; after: JobFacts | undefined }>;

export type AssignmentSize = Readonly<{ groups: number; jobs: number }>;

/** INVARIANTS. A job's row goes when it is neither assigned nor has a status. A host keeps its number for good. */
export class JobColumns {
  readonly #jobs = new JobRows();
  readonly #assignments = new AssignmentRows();
  readonly #shapes = new Shapes();
  readonly #slots: WorkloadSlots;
  readonly #hostNumbers = new Map<string, number>();
  readonly #hostIds: string[] = [];
  /** Jobs of a host that have a status and are not assigned. */
  readonly #loose = new Map<number, Set<number>>();
  #assignedCount = 0;

  constructor(slots: WorkloadSlots) {
    this.#slots = slots;
  }

  get assignedCount(): number {
    return this.#assignedCount;
  }

  get byteLength(): number {
    return this.#jobs.byteLength + this.#assignments.byteLength;
  }

  setAssignment(hostId: string, planId: string, after: Assignment | undefined, modRevision: number): void {
    const host = this.#hostNumber(hostId);
    const known = this.#assignments.find(host, planId);
    const before = known < 0 ? [] : this.#takeJobs(known);
    if (after === undefined) {
      if (known >= 0) this.#assignments.remove(known);
    } else {
      const row = known < 0 ? this.#assignments.add(host, planId) : known;
      this.#assignments.revision[row] = modRevision >>> 0;
      for (const group of after.groups) this.#putGroup(row, host, hostId, group);
    }
    for (const row of before) this.#dropIfEmpty(row);
  }

  #putGroup(assignment: number, host: number, hostId: string, group: AssignedGroup): void {
    const { workloadId, jobs } = group;
    const workload = this.#slots.take(workloadId);
    const shape = this.#shapes.take(group);
    const columns = this.#jobs;
    // From the last to the first: the list then has them in their order.
    for (const job of jobs.toReversed()) {
      const row = this.#takeRow(host, shortenId(job.id, hostId), workload);
      if (columns.assignment[row] !== noRow) this.#unassign(row);
      if (columns.workload[row] !== workload) this.#moveTo(row, workload);
      this.#setLoose(row, false);
      columns.assignment[row] = assignment;
      columns.nextOfAssignment[row] = this.#assignments.firstJob[assignment] ?? noRow;
      this.#assignments.firstJob[assignment] = row;
      columns.shape[row] = shape;
      columns.index[row] = job.index;
      columns.createdAt[row] = job.createdAt;
      columns.setDesired(row, job.desired);
      const slot = this.#slots.at(workload);
      if (slot !== undefined) slot.assigned += 1;
      this.#assignedCount += 1;
    }
  }

  /** The assignment's jobs, which are in none after that. */
  #takeJobs(assignment: number): number[] {
    const rows = this.#rowsOf(assignment);
    this.#assignments.firstJob[assignment] = noRow;
    for (const row of rows) this.#release(row);
    return rows;
  }

  /** For a job that stands in two assignments, which nobody writes: the later one counts. */
  #unassign(row: number): void {
    const assignment = this.#jobs.assignment[row] ?? noRow;
    const rows = this.#rowsOf(assignment).filter((other) => other !== row);
    this.#release(row);
    this.#assignments.firstJob[assignment] = noRow;
    for (const other of rows.toReversed()) {
      this.#jobs.nextOfAssignment[other] = this.#assignments.firstJob[assignment] ?? noRow;
      this.#assignments.firstJob[assignment] = other;
    }
  }

  #release(row: number): void {
    const columns = this.#jobs;
    const shape = columns.shape[row] ?? 0;
    if (columns.hasStatus(row)) columns.keepFacts(row, this.#shapes.of(shape)?.version ?? '');
    columns.assignment[row] = noRow;
    this.#setLoose(row, columns.hasStatus(row));
    this.#shapes.free(shape);
    const slot = this.#slots.at(columns.workload[row] ?? 0);
    if (slot !== undefined) slot.assigned -= 1;
    this.#assignedCount -= 1;
  }

  /** Undefined where there was no status and is none. */
  setStatus(hostId: string, jobId: string, facts: StatusFacts | undefined, modRevision: number): Told | undefined {
    const host = this.#hostNumber(hostId);
    const id = shortenId(jobId, hostId);
    const columns = this.#jobs;
    if (facts === undefined) {
      const row = columns.find(host, id);
      if (row < 0 || !columns.hasStatus(row)) return undefined;
      const before = this.#factsOf(row);
      const workloadId = this.#slots.at(columns.workload[row] ?? 0)?.id ?? '';
      columns.clearStatus(row);
      this.#dropIfEmpty(row);
      return { workloadId, before, after: undefined };
    }
    const { workloadId, ...after } = facts;
    const workload = this.#slots.take(workloadId);
    const row = this.#takeRow(host, id, workload);
    const before = this.#factsOf(row);
    const isAssigned = columns.assignment[row] !== noRow;
    if (!isAssigned && columns.workload[row] !== workload) this.#moveTo(row, workload);
    if (!isAssigned) this.#setLoose(row, true);
    columns.setStatus(row, after, isAssigned ? this.#shapes.of(columns.shape[row] ?? 0) : undefined, modRevision);
    return { workloadId, before, after };
  }

  jobsOf(workloadId: string): PlacedJob[] {
    const placed: PlacedJob[] = [];
    for (const row of this.#rowsOfWorkload(workloadId)) {
      if (this.#jobs.assignment[row] !== noRow) placed.push(this.#placed(row));
    }
    // Whatever order the watch brought them in, the decisions are the same.
    return placed.sort((a, b) => a.index - b.index || (a.id < b.id ? -1 : 1));
  }

  endedOf(workloadId: string): JobFacts[] {
    const ended: JobFacts[] = [];
    for (const row of this.#rowsOfWorkload(workloadId)) {
      const facts = this.#jobs.isFinal(row) ? this.#factsOf(row) : undefined;
      if (facts !== undefined) ended.push(facts);
    }
    return ended.sort((a, b) => (a.endedAt ?? a.createdAt) - (b.endedAt ?? b.createdAt));
  }

  jobsOn(hostId: string): PlacedJob[] {
    return this.#assignmentsOf(hostId).flatMap((row) => this.#rowsOf(row).map((job) => this.#placed(job)));
  }

  isAssigned(hostId: string, jobId: string): boolean {
    return this.#assignedRow(hostId, jobId) >= 0;
  }

  isToStop(hostId: string, jobId: string): boolean {
    const row = this.#assignedRow(hostId, jobId);
    return row >= 0 && this.#jobs.desiredOf(row) === 'stop';
  }

  /** -1 where it is not assigned. */
  #assignedRow(hostId: string, jobId: string): number {
    const host = this.#hostNumbers.get(hostId);
    const row = host === undefined ? -1 : this.#jobs.find(host, shortenId(jobId, hostId));
    return row >= 0 && this.#jobs.assignment[row] !== noRow ? row : -1;
  }

  groupsOf(hostId: string, planId: string): AssignedGroup[] | undefined {
    const host = this.#hostNumbers.get(hostId);
    const assignment = host === undefined ? -1 : this.#assignments.find(host, planId);
    if (assignment < 0) return undefined;
    const groups = new Map<string, AssignedGroup>();
    const columns = this.#jobs;
    for (const row of this.#rowsOf(assignment)) {
      const number = columns.shape[row] ?? 0;
      const shape = this.#shapes.of(number);
      const workload = this.#slots.at(columns.workload[row] ?? 0);
      if (shape === undefined || workload === undefined) continue;
      const key = `${number} ${workload.id}`;
      const { version, demand, singleton } = shape;
      const group = groups.get(key) ?? { workloadId: workload.id, version, demand, singleton, jobs: [] };
      groups.set(key, group);
      group.jobs.push({
        id: `${hostId}-${columns.idOf(row)}`,
        index: columns.index[row] ?? 0,
        desired: columns.desiredOf(row),
        createdAt: columns.createdAt[row] ?? 0,
      });
    }
    return [...groups.values()];
  }

  /** How much there is to write of it; nothing where there is none. */
  sizeOf(hostId: string, planId: string): AssignmentSize {
    const host = this.#hostNumbers.get(hostId);
    const assignment = host === undefined ? -1 : this.#assignments.find(host, planId);
    const columns = this.#jobs;
    let [groups, jobs, shape, workload] = [0, 0, noRow, noRow];
    let row = (assignment < 0 ? undefined : this.#assignments.firstJob[assignment]) ?? noRow;
    for (; row !== noRow; row = columns.nextOfAssignment[row] ?? noRow) {
      if (columns.shape[row] !== shape || columns.workload[row] !== workload) groups += 1;
      shape = columns.shape[row] ?? noRow;
      workload = columns.workload[row] ?? noRow;
      jobs += 1;
    }
    return { groups, jobs };
  }

  assignmentIds(hostId: string): string[] {
    return this.#assignmentsOf(hostId).map((row) => this.#assignments.planOf(row));
  }

  *hostsWithJobs(): Generator<string, void, undefined> {
    for (const host of this.#assignments.hosts.keys()) yield this.#hostIds[host] ?? '';
  }

  /** By the host's number. */
  hostsThat(isSo: (hostId: string) => boolean): Uint8Array {
    return Uint8Array.from(this.#hostIds, (hostId) => (isSo(hostId) ? 1 : 0));
  }

  /** Whether each job of the workload is of the version, to run and not ended, and on one of the hosts. */
  areAllPlain({ firstJob }: WorkloadSlot, version: string, hosts: Uint8Array): boolean {
    const columns = this.#jobs;
    for (let row = firstJob; row !== noRow; row = columns.nextOfWorkload[row] ?? noRow) {
      if (columns.assignment[row] === noRow) continue;
      if (columns.isFinal(row) || columns.desiredOf(row) === 'stop') return false;
      if (hosts[columns.host[row] ?? 0] !== 1) return false;
      if (this.#shapes.of(columns.shape[row] ?? 0)?.version !== version) return false;
    }
    return true;
  }

  knownHosts(): Iterable<string> {
    return this.#hostIds;
  }

  *assignmentVersions(hostId: string): Generator<readonly [string, number], void, undefined> {
    for (const row of this.#assignmentsOf(hostId)) {
      yield [cellKeys.assignment(hostId, this.#assignments.planOf(row)), this.#assignments.revision[row] ?? 0];
    }
  }

  *statusVersions(hostId: string): Generator<readonly [string, number], void, undefined> {
    const host = this.#hostNumbers.get(hostId);
    if (host === undefined) return;
    const assigned = this.#assignmentsOf(hostId).flatMap((row) => this.#rowsOf(row));
    for (const row of [...assigned, ...(this.#loose.get(host) ?? [])]) {
      if (!this.#jobs.hasStatus(row)) continue;
      yield [cellKeys.jobStatus(hostId, `${hostId}-${this.#jobs.idOf(row)}`), this.#jobs.statusRevision[row] ?? 0];
    }
  }

  #setLoose(row: number, isLoose: boolean): void {
    const host = this.#jobs.host[row] ?? 0;
    const rows = this.#loose.get(host);
    if (isLoose && rows === undefined) this.#loose.set(host, new Set([row]));
    else if (isLoose) rows?.add(row);
    else if (rows?.delete(row) === true && rows.size === 0) this.#loose.delete(host);
  }

  #placed(row: number): PlacedJob {
    const columns = this.#jobs;
    const hostId = this.#hostIds[columns.host[row] ?? 0] ?? '';
    const shape = this.#shapes.of(columns.shape[row] ?? 0) ?? missingShape;
    return {
      id: `${hostId}-${columns.idOf(row)}`,
      workloadId: this.#slots.at(columns.workload[row] ?? 0)?.id ?? '',
      version: shape.version,
      index: columns.index[row] ?? 0,
      desired: columns.desiredOf(row),
      createdAt: columns.createdAt[row] ?? 0,
      demand: shape.demand,
      hostId,
      planId: this.#assignments.planOf(columns.assignment[row] ?? 0),
      status: columns.factsOf(row, shape.version),
    };
  }

  #factsOf(row: number): JobFacts | undefined {
    const isAssigned = this.#jobs.assignment[row] !== noRow;
    const version = isAssigned ? this.#shapes.of(this.#jobs.shape[row] ?? 0)?.version : undefined;
    return this.#jobs.factsOf(row, version ?? '');
  }

  #assignmentsOf(hostId: string): number[] {
    const host = this.#hostNumbers.get(hostId);
    const rows: number[] = [];
    let row = (host === undefined ? undefined : this.#assignments.hosts.get(host)) ?? noRow;
    for (; row !== noRow; row = this.#assignments.nextOfHost[row] ?? noRow) rows.push(row);
    return rows;
  }

  #rowsOf(assignment: number): number[] {
    const rows: number[] = [];
    let row = this.#assignments.firstJob[assignment] ?? noRow;
    for (; row !== noRow; row = this.#jobs.nextOfAssignment[row] ?? noRow) rows.push(row);
    return rows;
  }

  #rowsOfWorkload(workloadId: string): number[] {
    const rows: number[] = [];
    let row = this.#slots.find(workloadId)?.firstJob ?? noRow;
    for (; row !== noRow; row = this.#jobs.nextOfWorkload[row] ?? noRow) rows.push(row);
    return rows;
  }

  #takeRow(host: number, id: string, workload: number): number {
    const known = this.#jobs.find(host, id);
    if (known >= 0) return known;
    const row = this.#jobs.add(host, id, workload);
    this.#link(row, workload);
    return row;
  }

  #dropIfEmpty(row: number): void {
    const columns = this.#jobs;
    if (columns.assignment[row] !== noRow || columns.hasStatus(row)) return;
    const workload = columns.workload[row] ?? 0;
    this.#setLoose(row, false);
    this.#unlink(row);
    columns.remove(row);
    this.#slots.freeIfEmpty(workload);
  }

  #moveTo(row: number, workload: number): void {
    const before = this.#jobs.workload[row] ?? 0;
    this.#unlink(row);
    this.#jobs.workload[row] = workload;
    this.#link(row, workload);
    this.#slots.freeIfEmpty(before);
  }

  #link(row: number, workload: number): void {
    const slot = this.#slots.at(workload);
    if (slot === undefined) return;
    const next = slot.firstJob;
    this.#jobs.nextOfWorkload[row] = next;
    this.#jobs.previousOfWorkload[row] = noRow;
    if (next !== noRow) this.#jobs.previousOfWorkload[next] = row;
    slot.firstJob = row;
    slot.rows += 1;
  }

  #unlink(row: number): void {
    const slot = this.#slots.at(this.#jobs.workload[row] ?? 0);
    const next = this.#jobs.nextOfWorkload[row] ?? noRow;
    const previous = this.#jobs.previousOfWorkload[row] ?? noRow;
    if (next !== noRow) this.#jobs.previousOfWorkload[next] = previous;
    if (previous !== noRow) this.#jobs.nextOfWorkload[previous] = next;
    else if (slot !== undefined) slot.firstJob = next;
    if (slot !== undefined) slot.rows -= 1;
  }

  #hostNumber(hostId: string): number {
    const known = this.#hostNumbers.get(hostId);
    if (known !== undefined) return known;
    this.#hostNumbers.set(hostId, this.#hostIds.length);
    return this.#hostIds.push(hostId) - 1;
  }
}

const missingShape = {
  version: '',
  demand: { memoryBytes: 1, cpuMillis: 0, hostPorts: [], family: '', volumes: [] },
  singleton: false,
};

/** Jobs are called `<host>-<id>`; one that is not is taken as if it were. */
function shortenId(jobId: string, hostId: string): string {
  return jobId.startsWith(hostId) && jobId.charAt(hostId.length) === '-' ? jobId.slice(hostId.length + 1) : jobId;
}
