/** An assignment's key to a row: which jobs stand in it, and which others are the host's. */
import { CompactIds } from './compact-ids.ts';
import { noRow } from './job-rows.ts';
import { RowIndex, mixHash } from './row-index.ts';
import { Rows } from './rows.ts';

/** INVARIANTS. A row is in its host's list; `hosts` holds exactly the hosts with a list. */
export class AssignmentRows {
  readonly rows = new Rows();
  planHigh: Uint32Array = this.rows.u32((column) => (this.planHigh = column));
  planLow: Uint32Array = this.rows.u32((column) => (this.planLow = column));
  planNumber: Uint32Array = this.rows.u32((column) => (this.planNumber = column));
  host: Uint32Array = this.rows.u32((column) => (this.host = column));
  firstJob: Uint32Array = this.rows.u32((column) => (this.firstJob = column));
  nextOfHost: Uint32Array = this.rows.u32((column) => (this.nextOfHost = column));
  previousOfHost: Uint32Array = this.rows.u32((column) => (this.previousOfHost = column));
  /** The last 32 bits of the key's modRevision. */
  revision: Uint32Array = this.rows.u32((column) => (this.revision = column));
  /** The first of each host's. */
  readonly hosts = new Map<number, number>();
  readonly #ids = new CompactIds();
  readonly #index = new RowIndex((row) => this.#hashOf(row));

  get byteLength(): number {
    return this.rows.byteLength + this.#index.byteLength;
  }

  find(host: number, planId: string): number {
    const compact = this.#ids.find(planId);
    if (compact === undefined) return -1;
    const { high, low, number } = compact;
    return this.#index.find(
      mixHash(high, low ^ number, host),
      (row) =>
        this.host[row] === host &&
        this.planLow[row] === low &&
        this.planHigh[row] === high &&
        this.planNumber[row] === number,
    );
  }

  add(host: number, planId: string): number {
    const row = this.rows.take();
    const { high, low, number } = this.#ids.take(planId);
    this.planHigh[row] = high;
    this.planLow[row] = low;
    this.planNumber[row] = number;
    this.host[row] = host;
    this.firstJob[row] = noRow;
    const next = this.hosts.get(host) ?? noRow;
    this.nextOfHost[row] = next;
    this.previousOfHost[row] = noRow;
    if (next !== noRow) this.previousOfHost[next] = row;
    this.hosts.set(host, row);
    this.#index.add(row);
    return row;
  }

  remove(row: number): void {
    const host = this.host[row] ?? 0;
    const next = this.nextOfHost[row] ?? noRow;
    const previous = this.previousOfHost[row] ?? noRow;
    if (next !== noRow) this.previousOfHost[next] = previous;
    if (previous !== noRow) this.nextOfHost[previous] = next;
    else if (next !== noRow) this.hosts.set(host, next);
    else this.hosts.delete(host);
    this.#index.remove(row);
    this.#ids.free(this.planHigh[row] ?? 0, this.planLow[row] ?? 0);
    this.rows.free(row);
  }

  planOf(row: number): string {
    return this.#ids.textOf(this.planHigh[row] ?? 0, this.planLow[row] ?? 0, this.planNumber[row] ?? 0);
  }

  #hashOf(row: number): number {
    return mixHash(
      this.planHigh[row] ?? 0,
      (this.planLow[row] ?? 0) ^ (this.planNumber[row] ?? 0),
      this.host[row] ?? 0,
    );
  }
}
