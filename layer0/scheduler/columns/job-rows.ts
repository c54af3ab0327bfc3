/** A job to a row: about seventy bytes each, whatever is rare beside it in maps. */
import { jobStates } from '../cell.ts';
import type { JobFacts } from '../cell-view.ts';
import { CompactIds } from './compact-ids.ts';
import { RowIndex, mixHash } from './row-index.ts';
import { Rows } from './rows.ts';

const isStopped = 1;
const hasStatus = 2;
const isFinal = 4;
const stateShift = 3;
const stateMask = 7;
const goesLast = 64;

/** No row: lists end with it. */
export const noRow = 0xffff_ffff;

/**
 * A row is a job that is assigned, or has a status, or both.
 * INVARIANTS. A row is in the list of its workload; when assigned also in that of its assignment, which the assignment keeps.
 */
export class JobRows {
  readonly rows = new Rows();
  idHigh: Uint32Array = this.rows.u32((column) => (this.idHigh = column));
  idLow: Uint32Array = this.rows.u32((column) => (this.idLow = column));
  idNumber: Uint32Array = this.rows.u32((column) => (this.idNumber = column));
  host: Uint32Array = this.rows.u32((column) => (this.host = column));
  workload: Uint32Array = this.rows.u32((column) => (this.workload = column));
  /** Assignment's row, or `noRow`. */
  assignment: Uint32Array = this.rows.u32((column) => (this.assignment = column));
  /** Version, demand and so on, as the assignment has them. */
  shape: Uint32Array = this.rows.u32((column) => (this.shape = column));
  index: Uint32Array = this.rows.u32((column) => (this.index = column));
  createdAt: Float64Array = this.rows.f64((column) => (this.createdAt = column));
  startedAt: Float64Array = this.rows.f64((column) => (this.startedAt = column));
  flags: Uint8Array = this.rows.u8((column) => (this.flags = column));
  /** The last 32 bits of the status' modRevision. */
  statusRevision: Uint32Array = this.rows.u32((column) => (this.statusRevision = column));
  nextOfWorkload: Uint32Array = this.rows.u32((column) => (this.nextOfWorkload = column));
  previousOfWorkload: Uint32Array = this.rows.u32((column) => (this.previousOfWorkload = column));
  nextOfAssignment: Uint32Array = this.rows.u32((column) => (this.nextOfAssignment = column));
  readonly #ids = new CompactIds();
  readonly #index = new RowIndex((row) => this.#hashOf(row));
  readonly #endedAt = new Map<number, number>();
  /** Where a status says other than its assignment, or there is none. */
  readonly #odd = new Map<number, Readonly<{ version: string; createdAt: number }>>();

  get byteLength(): number {
    return this.rows.byteLength + this.#index.byteLength;
  }

  /** `id` is the job's without its host; -1 when there is none. */
  find(host: number, id: string): number {
    const compact = this.#ids.find(id);
    if (compact === undefined) return -1;
    const { high, low, number } = compact;
    return this.#index.find(
      mixHash(high, low, host ^ (number << 16)),
      (row) =>
        this.idLow[row] === low &&
        this.idHigh[row] === high &&
        this.idNumber[row] === number &&
        this.host[row] === host,
    );
  }

  /** A row without assignment and status, which the caller gives one. */
  add(host: number, id: string, workload: number): number {
    const row = this.rows.take();
    const { high, low, number } = this.#ids.take(id);
    this.idHigh[row] = high;
    this.idLow[row] = low;
    this.idNumber[row] = number;
    this.host[row] = host;
    this.workload[row] = workload;
    this.assignment[row] = noRow;
    this.flags[row] = 0;
    this.createdAt[row] = 0;
    this.startedAt[row] = Number.NaN;
    this.#index.add(row);
    return row;
  }

  remove(row: number): void {
    this.clearStatus(row);
    this.#index.remove(row);
    this.#ids.free(this.idHigh[row] ?? 0, this.idLow[row] ?? 0);
    this.rows.free(row);
  }

  idOf(row: number): string {
    return this.#ids.textOf(this.idHigh[row] ?? 0, this.idLow[row] ?? 0, this.idNumber[row] ?? 0);
  }

  setDesired(row: number, desired: 'run' | 'stop'): void {
    const flags = this.flags[row] ?? 0;
    this.flags[row] = desired === 'stop' ? flags | isStopped : flags & ~isStopped;
  }

  desiredOf(row: number): 'run' | 'stop' {
    return ((this.flags[row] ?? 0) & isStopped) === 0 ? 'run' : 'stop';
  }

  hasStatus(row: number): boolean {
    return ((this.flags[row] ?? 0) & hasStatus) !== 0;
  }

  isFinal(row: number): boolean {
    return ((this.flags[row] ?? 0) & isFinal) !== 0;
  }

  /** `assigned` is what the assignment says of it, if it is assigned. */
  setStatus(row: number, facts: JobFacts, assigned: { version: string } | undefined, modRevision: number): void {
    const state = jobStates.indexOf(facts.state) << stateShift;
    const kept = (this.flags[row] ?? 0) & isStopped;
    this.flags[row] =
      kept | hasStatus | (facts.isFinal ? isFinal : 0) | (facts.goesLast === true ? goesLast : 0) | state;
    this.startedAt[row] = facts.startedAt ?? Number.NaN;
    this.statusRevision[row] = modRevision >>> 0;
    if (facts.endedAt === undefined) this.#endedAt.delete(row);
    else this.#endedAt.set(row, facts.endedAt);
    const { version, createdAt } = facts;
    if (assigned?.version === version && this.createdAt[row] === createdAt) this.#odd.delete(row);
    else this.#odd.set(row, { version, createdAt });
  }

  clearStatus(row: number): void {
    this.flags[row] = (this.flags[row] ?? 0) & isStopped;
    this.startedAt[row] = Number.NaN;
    this.#endedAt.delete(row);
    this.#odd.delete(row);
  }

  /** `version`: the assignment's. */
  factsOf(row: number, version: string): JobFacts | undefined {
    if (!this.hasStatus(row)) return undefined;
    const startedAt = this.startedAt[row] ?? Number.NaN;
    const endedAt = this.#endedAt.get(row);
    const flags = this.flags[row] ?? 0;
    return {
      state: jobStates[(flags >> stateShift) & stateMask] ?? 'pending',
      isFinal: this.isFinal(row),
      createdAt: this.createdAt[row] ?? 0,
      version,
      ...this.#odd.get(row),
      ...(Number.isNaN(startedAt) ? {} : { startedAt }),
      ...(endedAt === undefined ? {} : { endedAt }),
      ...((flags & goesLast) === 0 ? {} : { goesLast: true as const }),
    };
  }

  /** The assignment goes, the status stays: what the assignment said is kept beside it. */
  keepFacts(row: number, version: string): void {
    if (!this.#odd.has(row)) this.#odd.set(row, { version, createdAt: this.createdAt[row] ?? 0 });
  }

  #hashOf(row: number): number {
    const number = this.idNumber[row] ?? 0;
    return mixHash(this.idHigh[row] ?? 0, this.idLow[row] ?? 0, (this.host[row] ?? 0) ^ (number << 16));
  }
}
