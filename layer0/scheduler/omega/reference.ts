/** Reference results of Omega's simulator, one run a JSON line, and how a replay differs from them. */
import { z } from 'zod';
import type { RunConfig, RunResult } from './replay.ts';

const schedulerSchema = z.object({
  name: z.string(),
  ok: z.int(),
  fail: z.int(),
  retried: z.int(),
  taskOk: z.int(),
  taskFail: z.int(),
  noRes: z.int(),
  useful: z.number(),
  wasted: z.number(),
  left: z.int(),
  abandoned: z.int(),
  findFail: z.int(),
});
const workloadSchema = z.object({
  name: z.string(),
  jobs: z.int(),
  waitFirst: z.number(),
  waitFull: z.number(),
  p90First: z.number(),
});

const conflictModes = { 'sequence-numbers': 'sequence_numbers', 'resource-fit': 'resource_fit' } as const;
const transactionModes = { incremental: 'incremental', 'all-or-nothing': 'all_or_nothing' } as const;

/** `conflict transaction batch-schedulers service-schedulers batch-C batch-L service-C service-L`, seconds. */
const configSchema = z.string().transform((text): Omit<RunConfig, 'machines'> => {
  const [conflict, transaction, ...numbers] = text.split(' ');
  const modes = z
    .object({
      conflict: z.enum(['sequence-numbers', 'resource-fit']),
      transaction: z.enum(['incremental', 'all-or-nothing']),
    })
    .parse({ conflict, transaction });
  const [batch, service, batchJob, batchTask, serviceJob, serviceTask] = z
    .tuple([z.int(), z.int(), z.number(), z.number(), z.number(), z.number()])
    .parse(numbers.map(Number));
  return {
    conflict: conflictModes[modes.conflict],
    transaction: transactionModes[modes.transaction],
    schedulers: { batch, service },
    thinking: {
      batch: { jobSeconds: batchJob, taskSeconds: batchTask },
      service: { jobSeconds: serviceJob, taskSeconds: serviceTask },
    },
  };
});

const referenceSchema = z.object({
  preset: z.string(),
  cfg: z.string(),
  occCpu: z.number(),
  sched: z.array(schedulerSchema),
  wl: z.array(workloadSchema),
});
export type Reference = Readonly<{
  preset: string;
  name: string;
  config: Omit<RunConfig, 'machines'>;
  result: RunResult;
}>;

export function parseReferences(text: string): Reference[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line) => {
    const { preset, cfg, occCpu, sched, wl } = referenceSchema.parse(JSON.parse(line));
    const result = { cpuTaken: occCpu, schedulers: sched, workloads: wl };
    return { preset, name: cfg, config: configSchema.parse(cfg), result };
  });
}

/** Every figure that differs: counts at all, decimals by more than 1e-5 of the reference. Empty: the runs are equal. */
export function differences(reference: RunResult, run: RunResult): string[] {
  return [
    ...compare('cell', [{ name: 'cpu', taken: reference.cpuTaken }], [{ name: 'cpu', taken: run.cpuTaken }]),
    ...compare('scheduler', reference.schedulers, run.schedulers),
    ...compare('workload', reference.workloads, run.workloads),
  ];
}

type Row = { name: string } & Record<string, number | string>;

function compare(what: string, expected: readonly Row[], actual: readonly Row[]): string[] {
  const missing = actual.filter(({ name }) => !expected.some((row) => row.name === name));
  return [
    ...missing.map(({ name }) => `${what} ${name} is not in the reference`),
    ...expected.flatMap((row) => {
      const run = actual.find(({ name }) => name === row.name);
      if (run === undefined) return [`${what} ${row.name} did not run`];
      return Object.entries(row).flatMap(([key, value]) => {
        const isSame = typeof value === 'number' ? isClose(value, Number(run[key])) : value === run[key];
        return isSame ? [] : [`${what} ${row.name} ${key}: ${run[key]}, reference ${value}`];
      });
    }),
  ];
}

function isClose(expected: number, actual: number): boolean {
  if (Number.isInteger(expected) && Number.isInteger(actual)) return expected === actual;
  // The reference is printed with six decimals.
  return Math.abs(actual - expected) <= Math.max(1e-6, Math.abs(expected) * 1e-5);
}
