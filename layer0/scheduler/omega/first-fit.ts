/** Omega's placement: random machines of a pool until the tasks are placed or no machine is left that was not too full. */
import { Columns } from '../placement/columns.ts';
import { claimIn, type HostClaim } from '../placement/transaction.ts';
import type { OmegaJob } from './job-list.ts';
import { Lcg } from './lcg.ts';
import type { PrivateView } from './shared-cell.ts';

export class FirstFit implements PrivateView {
  readonly #copy: Columns;
  /** Keeps the order that earlier jobs left. */
  readonly #pool: number[];
  readonly #random: Lcg;
  /** Machines drawn that were too full. */
  misses = 0;

  constructor(machines: number, seed: number) {
    this.#copy = new Columns(machines);
    this.#pool = Array.from({ length: machines }, (_, machine) => machine);
    this.#random = new Lcg(seed);
  }

  refresh(columns: Columns): void {
    this.#copy.copyFrom(columns);
  }

  /** One claim a task. */
  place(job: OmegaJob, tasks: number): HostClaim[] {
    return this.placeOn(this.#copy, job, tasks);
  }

  placeOn(columns: Columns, { cpu, memory }: Pick<OmegaJob, 'cpu' | 'memory'>, tasks: number): HostClaim[] {
    const claims: HostClaim[] = [];
    const pool = this.#pool;
    for (let candidates = pool.length; claims.length < tasks && candidates > 0;) {
      const drawn = this.#random.nextInt(candidates);
      const machine = pool[drawn] ?? 0;
      if (columns.fits(machine, memory, cpu)) claims.push(claimIn(columns, machine, memory, cpu));
      else {
        this.misses += 1;
        candidates -= 1;
        pool[drawn] = pool[candidates] ?? 0;
        pool[candidates] = machine;
      }
    }
    return claims;
  }
}
