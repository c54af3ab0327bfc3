/** The same cell and workload under this scheduler's own placement: tables of hosts, home slices, whole hosts a claim. */
import type { Columns } from '../placement/columns.ts';
import { chooseMany } from '../placement/choose.ts';
import { HostTable } from '../placement/host-table.ts';
import type { HostClaim } from '../placement/transaction.ts';
import type { OmegaJob } from './job-list.ts';
import { Lcg } from './lcg.ts';
import { omegaMachine, runSeconds, schedulerClasses, submit, type CellConfig } from './replay.ts';
import { CellScheduler, SharedCell, type PrivateView } from './shared-cell.ts';

class HomeSliceView implements PrivateView {
  readonly #table: HostTable;
  readonly #random: Lcg;

  constructor(machines: number, slice: number, of: number) {
    this.#table = new HostTable(machines);
    this.#random = new Lcg(slice);
    const capacity = { memoryBytes: omegaMachine.memory, cpuMillis: omegaMachine.cpu };
    for (let at = 0; at < machines; at++) this.#table.put({ id: `m${at}`, capacity, attributes: {}, isOpen: true });
    this.#table.setHome({ slice, of });
  }

  /** Only machines that changed are touched. */
  refresh(columns: Columns): void {
    const own = this.#table.columns;
    for (let index = 0; index < columns.size; index++) {
      const memory = columns.memoryFree[index] ?? 0;
      const cpu = columns.cpuFree[index] ?? 0;
      if (own.memoryFree[index] !== memory || own.cpuFree[index] !== cpu) {
        this.#table.setUsed(index, { memoryBytes: omegaMachine.memory - memory, cpuMillis: omegaMachine.cpu - cpu });
      }
    }
    own.sequence.set(columns.sequence);
  }

  place(job: OmegaJob, tasks: number): HostClaim[] {
    const demand = { memoryBytes: job.memory, cpuMillis: job.cpu, hostPorts: [], family: '', volumes: [] };
    const policy = 'two_choices';
    const shares = chooseMany(this.#table, { policy, demand, random: () => this.#random.next() }, tasks);
    return shares.map(({ index, count }) => {
      const sequence = this.#table.columns.sequence[index] ?? 0;
      this.#table.claim(index, demand, count);
      return { index, memory: job.memory, cpu: job.cpu, count, sequence };
    });
  }
}

export type OwnRun = Readonly<{ commits: number; conflicts: number; jobsLeft: number; tasks: number }>;

/**
 * `schedulers` alike, each for jobs of any class. Counted are transactions that went through whole and those that did not,
 * jobs that were not placed whole, tasks placed.
 */
export function replayOwn(jobs: readonly OmegaJob[], config: CellConfig & { schedulers: number }): OwnRun {
  const cell = new SharedCell(config.machines, omegaMachine, config);
  const schedulers = Array.from({ length: config.schedulers }, (_, slice) => {
    return new CellScheduler(cell, config.thinking, new HomeSliceView(config.machines, slice, config.schedulers));
  });
  let dealt = 0;
  const submissions = schedulerClasses.flatMap((name) =>
    submit(cell, jobs, name, () => schedulers[dealt++ % schedulers.length]),
  );
  cell.agenda.runPast(runSeconds);
  const counters = schedulers.map((scheduler) => scheduler.counters);
  return {
    commits: counters.reduce((sum, { ok }) => sum + ok, 0),
    conflicts: counters.reduce((sum, { fail }) => sum + fail, 0),
    jobsLeft: submissions.filter(({ left }) => left > 0).length,
    tasks: counters.reduce((sum, { taskOk }) => sum + taskOk, 0),
  };
}

/** `times` as many jobs in the same time: every copy of the list begins at another point of it. */
export function multiply(jobs: readonly OmegaJob[], times: number): OmegaJob[] {
  const copies = Array.from({ length: times }, (_, copy) => {
    const shift = (copy * runSeconds) / times;
    return jobs.map((job) => ({ ...job, submitSeconds: (job.submitSeconds + shift) % runSeconds }));
  });
  return copies.flat().toSorted((a, b) => a.submitSeconds - b.submitSeconds);
}
