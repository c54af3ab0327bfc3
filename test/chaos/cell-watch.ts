/** The cell as it is now, and waiting for it to be as it should: woken by its changes, not by the clock. */
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { CellFollower } from '@flynn/scheduler/cell-follower';
import type { Workload } from '@flynn/scheduler/cell';
import type { Cell, PlacedJob } from '@flynn/scheduler/cell-view';
import { CellColumns } from '@flynn/scheduler/columns/cell-columns';
import { attributesOf, failedConstraint, isOpen } from '@flynn/scheduler/feasible';
import type { Store } from '@flynn/store/store';

export class CellWatch implements AsyncDisposable {
  readonly #tasks = new TaskGroup();
  readonly #columns: CellColumns;
  readonly #faults: string[] = [];
  #changed = Promise.withResolvers<void>();

  private constructor() {
    this.#columns = new CellColumns({ onFault: (key) => this.#faults.push(key) });
  }

  static async open(store: Store): Promise<CellWatch> {
    const watch = new CellWatch();
    await watch.#follow(store);
    return watch;
  }

  async #follow(store: Store): Promise<void> {
    const columns = this.#columns;
    const follower = new CellFollower({
      store,
      columns,
      fold: ({ changes, revision }) => {
        for (const change of changes) columns.fold(change);
        columns.advance(revision);
        this.#changed.resolve();
        this.#changed = Promise.withResolvers();
      },
      log: silentLogger(),
    });
    await follower.open(this.#tasks.signal);
    follower.follow(this.#tasks);
  }

  get cell(): Cell {
    return this.#columns;
  }

  /** Until nothing is wrong any more in the eyes of `look`; `timeout` with what still is. */
  async until(look: (cell: Cell) => readonly string[], options: { what: string; deadlineMs: number }): Promise<void> {
    const limited = withDeadline(options.deadlineMs);
    for (;;) {
      const wrong = [...this.#faults.map((key) => `${key} does not decode`), ...look(this.cell)];
      if (wrong.length === 0) return;
      try {
        await raceAbort(this.#changed.promise, limited);
      } catch {
        const seconds = options.deadlineMs / 1_000;
        const said = wrong.slice(0, 12).join('; ');
        throw new FlynnError('timeout', `waited ${seconds} s for ${options.what}: ${said}`);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks.stop();
  }
}

/** Whether a job does what it is for. */
export function isUp(cell: Cell, job: PlacedJob): boolean {
  return job.desired === 'run' && job.status?.state === 'running' && cell.hosts.has(job.hostId);
}

/**
 * What the cell wants and does not have, and what it has and does not want; jobs whose data is on hosts that are away do not
 * count.
 */
export function wrongs(cell: Cell, hosts: readonly string[]): string[] {
  const wrong: string[] = [];
  for (const host of hosts) if (!cell.hosts.has(host)) wrong.push(`${host} is not there`);
  for (const id of cell.workloadIds()) {
    const workload = cell.workload(id)?.value;
    const jobs = cell.jobsOf(id);
    const isWaiting = jobs.some(({ demand, hostId }) => demand.volumes.length > 0 && !cell.hosts.has(hostId));
    if (workload === undefined || isWaiting) continue;
    const wanted =
      workload.kind === 'omni'
        ? workload.count * openHosts(cell, workload)
        : workload.kind === 'ephemeral'
          ? 0
          : workload.count;
    const up = jobs.filter((job) => isUp(cell, job) && job.version === workload.version);
    if (up.length !== wanted || jobs.length !== wanted) {
      wrong.push(`${id}: ${wanted} wanted, ${jobs.length} assigned (${jobs.map(jobText).join(', ')})`);
    }
    if (workload.kind === 'ephemeral' && workload.count > 0) wrong.push(`${id} has not run`);
    const slots = new Set(jobs.map(({ index, hostId }) => (workload.kind === 'omni' ? hostId : index)));
    if (slots.size !== jobs.length) wrong.push(`${id}: two jobs of one slot`);
  }
  for (const id of cell.workloadsWithJobs()) {
    if (cell.workload(id) === undefined) wrong.push(`${id} is gone and has jobs`);
  }
  for (const { value } of cell.evaluations.values()) {
    const isWaiting = value.reason?.includes('which is away') === true;
    if (value.state === 'blocked' && !isWaiting)
      wrong.push(`evaluation of ${value.workloadId} is blocked: ${value.reason}`);
  }
  return wrong;
}

const jobText = (job: PlacedJob): string => `${job.id} ${job.desired} ${job.status?.state ?? 'unknown'}`;

function openHosts(cell: Cell, { constraints }: Workload): number {
  return [...cell.hosts].filter(([id, { value }]) => {
    const settings = cell.settings.get(id);
    const isMeant = failedConstraint(id, attributesOf(value, settings), constraints) === undefined;
    return isMeant && isOpen(value, settings);
  }).length;
}
