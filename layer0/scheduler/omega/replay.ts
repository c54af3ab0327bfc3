/** One run of Omega's simulator: a job list, a mode, so many schedulers a class, and what each of them counted. */
import type { CommitMode } from '../placement/transaction.ts';
import { FirstFit } from './first-fit.ts';
import type { OmegaJob, SchedulerClass } from './job-list.ts';
import {
  CellScheduler,
  SharedCell,
  submissionOf,
  type Counters,
  type Submission,
  type Thinking,
} from './shared-cell.ts';

export const omegaMachine = { cpu: 4, memory: 16 } as const;
export const runSeconds = 21_600;
const seed = 0;

export type CellConfig = CommitMode & Readonly<{ machines: number; thinking: Thinking }>;
export type RunConfig = CellConfig & Readonly<{ schedulers: Readonly<Record<SchedulerClass, number>> }>;

export type RunResult = Readonly<{
  /** CPU taken at the end. */
  cpuTaken: number;
  schedulers: readonly (Counters & { name: string; left: number; findFail: number })[];
  workloads: readonly { name: string; jobs: number; waitFirst: number; waitFull: number; p90First: number }[];
}>;

const classNames: Readonly<Record<SchedulerClass, string>> = { batch: 'Batch', service: 'Service' };
export const schedulerClasses: readonly SchedulerClass[] = ['batch', 'service'];

/** Each class has schedulers of its own, with one counter over both for whose turn it is. */
export function replay(jobs: readonly OmegaJob[], config: RunConfig): RunResult {
  const cell = new SharedCell(config.machines, omegaMachine, config);
  prefill(cell, jobs, config.machines);
  let dealt = 0;
  const classes = schedulerClasses.map((name) => {
    const seats = Array.from({ length: config.schedulers[name] }, (_, at) => {
      const view = new FirstFit(config.machines, seed);
      return {
        name: `Omega${classNames[name]}-${at + 1}`,
        view,
        scheduler: new CellScheduler(cell, config.thinking, view),
      };
    });
    const submissions = submit(cell, jobs, name, () => seats[++dealt % seats.length]?.scheduler);
    return { name: classNames[name], seats, submissions };
  });
  cell.agenda.runPast(runSeconds);
  return {
    cpuTaken: cell.cpuTaken,
    schedulers: classes.flatMap(({ seats }) =>
      seats.map(({ name, view, scheduler }) => {
        return { name, ...scheduler.counters, left: scheduler.queued, findFail: view.misses };
      }),
    ),
    workloads: classes.map(({ name, submissions }) => waitsOf(name, submissions)),
  };
}

/** The jobs of a class, each to the scheduler whose turn it is, when their time comes. */
export function submit(
  cell: SharedCell,
  jobs: readonly OmegaJob[],
  name: SchedulerClass,
  next: () => CellScheduler | undefined,
): Submission[] {
  const submissions = jobs.flatMap((job) => (job.class === name ? [submissionOf({ ...job, class: name })] : []));
  for (const submission of submissions) {
    const scheduler = next();
    cell.agenda.after(submission.job.submitSeconds, () => scheduler?.enqueue(submission));
  }
  return submissions;
}

/** What runs at time 0 is placed on the cell itself, without thinking. */
function prefill(cell: SharedCell, jobs: readonly OmegaJob[], machines: number): void {
  const firstFit = new FirstFit(machines, seed);
  for (const job of jobs) {
    if (job.class !== 'prefill') continue;
    for (const { index, memory, cpu } of firstFit.placeOn(cell.columns, job, job.tasks)) {
      cell.agenda.after(job.durationSeconds, () => cell.columns.release(index, memory, cpu));
    }
  }
}

/** The waits of a class no job of which was looked at. */
const nobody = -1;

function waitsOf(name: string, submissions: readonly Submission[]): RunResult['workloads'][number] {
  const tried = submissions.filter(({ attempts }) => attempts > 0);
  const first = tried.map(({ waitFirst }) => waitFirst).toSorted((a, b) => a - b);
  const mean = (values: readonly number[]): number =>
    values.length === 0 ? nobody : values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    name,
    jobs: submissions.length,
    waitFirst: mean(first),
    waitFull: mean(tried.map(({ waitFull }) => waitFull)),
    p90First: first[Math.floor((first.length - 1) * 0.9)] ?? nobody,
  };
}
