/** The cell that Omega's schedulers share, and how one of them works: copy the state, think, place on the copy, commit. */
import { Columns } from '../placement/columns.ts';
import { commit, type CommitMode, type CommitResult, type HostClaim } from '../placement/transaction.ts';
import { Agenda } from './agenda.ts';
import type { OmegaJob, SchedulerClass } from './job-list.ts';

/** Attempts after which a job is given up: without one task placed, and in all. */
const attemptsWithoutTask = 100;
const attemptsInAll = 1_000;
const retrySeconds = 1;

export class SharedCell {
  readonly columns: Columns;
  readonly agenda = new Agenda();
  readonly #mode: CommitMode;

  constructor(machines: number, machine: Readonly<{ cpu: number; memory: number }>, mode: CommitMode) {
    this.columns = new Columns(machines);
    for (let index = 0; index < machines; index++) this.columns.reset(index, machine.memory, machine.cpu);
    this.#mode = mode;
  }

  /** What holds is freed again after `seconds`. */
  commit(claims: readonly HostClaim[], seconds: number): CommitResult {
    const result = commit(this.columns, claims, this.#mode);
    for (const { index, memory, cpu, count } of result.accepted) {
      this.agenda.after(seconds, () => this.columns.release(index, memory, cpu, count));
    }
    return result;
  }

  get cpuTaken(): number {
    const { cpuCapacity, cpuFree } = this.columns;
    return cpuCapacity.reduce((sum, capacity, index) => sum + capacity - (cpuFree[index] ?? 0), 0);
  }
}

/** A job on its way through a scheduler. */
export type Submission = {
  readonly job: OmegaJob & { class: SchedulerClass };
  left: number;
  attempts: number;
  enqueuedAt: number;
  /** Seconds in the queue until first looked at; until the attempt that placed the last task, all attempts together. */
  waitFirst: number;
  waitFull: number;
};

export function submissionOf(job: Submission['job']): Submission {
  return { job, left: job.tasks, attempts: 0, enqueuedAt: 0, waitFirst: 0, waitFull: 0 };
}

export type Counters = {
  ok: number;
  fail: number;
  retried: number;
  taskOk: number;
  taskFail: number;
  /** Attempts that found no machine for a single task. */
  noRes: number;
  /** Thinking that ended in transactions that held, seconds, and the other thinking. */
  useful: number;
  wasted: number;
  abandoned: number;
};

type Think = Readonly<{ jobSeconds: number; taskSeconds: number }>;
/** How long a scheduler thinks, by the job's class. */
export type Thinking = Readonly<Record<SchedulerClass, Think>>;

/** What a scheduler knows of the cell while it thinks, and how it chooses machines. */
export interface PrivateView {
  /** Becomes what the cell is now. */
  refresh(columns: Columns): void;
  /** Places up to `tasks` of the job, claiming them in the view. */
  place(job: OmegaJob, tasks: number): HostClaim[];
}

export class CellScheduler {
  readonly counters: Counters = {
    ok: 0,
    fail: 0,
    retried: 0,
    taskOk: 0,
    taskFail: 0,
    noRes: 0,
    useful: 0,
    wasted: 0,
    abandoned: 0,
  };
  readonly #cell: SharedCell;
  readonly #thinking: Thinking;
  readonly #view: PrivateView;
  readonly #queue: Submission[] = [];
  #isBusy = false;

  constructor(cell: SharedCell, thinking: Thinking, view: PrivateView) {
    this.#cell = cell;
    this.#thinking = thinking;
    this.#view = view;
  }

  get queued(): number {
    return this.#queue.length;
  }

  enqueue(submission: Submission): void {
    submission.enqueuedAt = this.#cell.agenda.now;
    this.#queue.push(submission);
    if (!this.#isBusy) this.#next();
  }

  #next(): void {
    const submission = this.#queue.shift();
    this.#isBusy = submission !== undefined;
    if (submission === undefined) return;
    const { agenda, columns } = this.#cell;
    const waited = agenda.now - submission.enqueuedAt;
    submission.waitFull += waited;
    if (submission.attempts === 0) submission.waitFirst = waited;
    this.#view.refresh(columns);
    const { jobSeconds, taskSeconds } = this.#thinking[submission.job.class];
    const seconds = jobSeconds + taskSeconds * submission.left;
    agenda.after(seconds, () => {
      this.#attempt(submission, seconds);
      this.#next();
    });
  }

  #attempt(submission: Submission, seconds: number): void {
    const { job } = submission;
    const { counters } = this;
    submission.attempts += 1;
    const claims = this.#view.place(job, submission.left);
    if (claims.length === 0) {
      counters.noRes += 1;
      counters.wasted += seconds;
    } else {
      const { accepted, refused } = this.#cell.commit(claims, job.durationSeconds);
      const placed = tasksOf(accepted);
      submission.left -= placed;
      counters.taskOk += placed;
      counters.taskFail += tasksOf(refused);
      if (submission.attempts > 1) counters.retried += 1;
      counters[refused.length === 0 ? 'ok' : 'fail'] += 1;
      counters[refused.length === 0 ? 'useful' : 'wasted'] += seconds;
    }
    if (submission.left === 0) return;
    const isHopeless = submission.attempts > attemptsWithoutTask && submission.left === job.tasks;
    if (isHopeless || submission.attempts > attemptsInAll) counters.abandoned += 1;
    else this.#cell.agenda.after(retrySeconds, () => this.enqueue(submission));
  }
}

function tasksOf(claims: readonly HostClaim[]): number {
  return claims.reduce((sum, { count }) => sum + count, 0);
}
