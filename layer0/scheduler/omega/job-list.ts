/** Job lists of the Omega simulator as tab-separated lines: class, submit s, tasks, duration s, cpu, memory per task. */
import { FlynnError } from '@flynn/kit/errors';

/** Those that run already at time 0, and the two classes that have schedulers of their own. */
const classes = { P: 'prefill', B: 'batch', S: 'service' } as const;
type JobClass = (typeof classes)[keyof typeof classes];
export type SchedulerClass = Exclude<JobClass, 'prefill'>;

export type OmegaJob = Readonly<{
  class: JobClass;
  submitSeconds: number;
  tasks: number;
  durationSeconds: number;
  cpu: number;
  memory: number;
}>;

export function parseJobs(text: string): OmegaJob[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line, at) => {
      const [letter = '', ...rest] = line.split('\t');
      const [submitSeconds = NaN, tasks = NaN, durationSeconds = NaN, cpu = NaN, memory = NaN] = rest.map(Number);
      const name = Object.entries(classes).find(([key]) => key === letter)?.[1];
      if (name === undefined || ![submitSeconds, tasks, durationSeconds, cpu, memory].every(Number.isFinite)) {
        throw new FlynnError(
          'invalid',
          `line ${at + 1} of the job list is not class, submit, tasks, duration, cpu, memory: ${line}`,
        );
      }
      return { class: name, submitSeconds, tasks, durationSeconds, cpu, memory };
    });
}
