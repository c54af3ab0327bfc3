/**
 * `omega DIR [PRESET=MACHINES …]`: replays the runs of `DIR/reference.jsonl` on the job lists `DIR/jobs-PRESET.tsv` through the
 * scheduler's shared state and compares every counter; then the example workload × 20 under the scheduler's own placement.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { multiply, replayOwn } from '@flynn/scheduler/omega/home-slices';
import { parseJobs, type OmegaJob } from '@flynn/scheduler/omega/job-list';
import { differences, parseReferences, type Reference } from '@flynn/scheduler/omega/reference';
import { replay, type RunResult } from '@flynn/scheduler/omega/replay';
import type { Bench } from './bench.ts';
import { figure, timeSeconds, type Figure } from './figure.ts';

const knownMachines: Readonly<Record<string, number>> = { example: 10_000, busy: 1_000 };
const differencesShown = 5;
const times = 20;
const schedulers = 16;

export const bench: Bench = {
  needs: 'nothing',
  run: async ([directory, ...sizes]) => {
    if (directory === undefined)
      throw new FlynnError('invalid', 'usage: npm run bench -- omega DIR [PRESET=MACHINES …]');
    const machines = { ...knownMachines, ...Object.fromEntries(sizes.map(parseSize)) };
    return [...(await replayAll(directory, machines)), ...(await own(directory))];
  },
};

async function replayAll(directory: string, machines: Readonly<Record<string, number>>): Promise<Figure[]> {
  const references = parseReferences(await readFile(join(directory, 'reference.jsonl'), 'utf8'));
  const lists = new Map<string, OmegaJob[]>();
  for (const preset of new Set(references.map((reference) => reference.preset))) {
    lists.set(preset, parseJobs(await readFile(join(directory, `jobs-${preset}.tsv`), 'utf8')));
  }
  let equal = 0;
  let commits = 0;
  let conflicts = 0;
  const seconds = await timeSeconds(async () => {
    for (const reference of references) {
      const run = replay(lists.get(reference.preset) ?? [], { ...reference.config, machines: machinesOf(reference) });
      if (report(reference, run)) equal += 1;
      commits += sum(run, 'ok');
      conflicts += sum(run, 'fail');
    }
  });
  if (equal < references.length) process.exitCode = 1;
  return [
    figure({ name: 'omega runs equal', value: equal, unit: '', must: `${references.length}, all of them` }),
    figure({ name: 'omega commits', value: commits, unit: '' }),
    figure({ name: 'omega conflicts', value: conflicts, unit: '' }),
    figure({ name: 'omega replay', value: seconds, unit: 's' }),
  ];

  function machinesOf({ preset }: Reference): number {
    const count = machines[preset];
    if (count !== undefined) return count;
    throw new FlynnError('invalid', `how many machines does ${preset} have? Add ${preset}=MACHINES to the command`);
  }
}

/** Whether the run equals the reference; a line for each on stderr. */
function report({ preset, name, result }: Reference, run: RunResult): boolean {
  const differing = differences(result, run);
  const counts = `ok ${sum(run, 'ok')} fail ${sum(run, 'fail')} tasks ${sum(run, 'taskOk')}`;
  const verdict = differing.length === 0 ? 'equal  ' : 'DIFFERS';
  process.stderr.write(`${verdict} ${preset} ${name}: ${counts}\n`);
  for (const line of differing.slice(0, differencesShown)) process.stderr.write(`        ${line}\n`);
  return differing.length === 0;
}

async function own(directory: string): Promise<Figure[]> {
  const path = join(directory, 'jobs-example.tsv');
  if (!existsSync(path)) return [];
  const jobs = multiply(parseJobs(await readFile(path, 'utf8')), times);
  const thinking = {
    batch: { jobSeconds: 1, taskSeconds: 0.05 },
    service: { jobSeconds: 0.1, taskSeconds: 0.005 },
  };
  const config = { conflict: 'resource_fit', transaction: 'incremental', machines: 10_000, thinking } as const;
  const theirs = replay(jobs, { ...config, schedulers: { batch: schedulers, service: 1 } });
  const ours = replayOwn(jobs, { ...config, schedulers });
  const floor = sum(theirs, 'fail') / sum(theirs, 'ok');
  const name = `example × ${times}, ${schedulers} schedulers, own placement`;
  return [
    figure({
      name: `${name}: commits with a conflict`,
      value: (100 * ours.conflicts) / ours.commits,
      unit: '%',
      floor: 100 * floor,
      must: '<= 2, aim 0.5',
    }),
    figure({ name: `${name}: commits`, value: ours.commits, unit: '' }),
    figure({ name: `${name}: tasks`, value: ours.tasks, unit: '' }),
    figure({ name: `${name}: jobs not placed whole at the end`, value: ours.jobsLeft, unit: '' }),
  ];
}

function sum(run: RunResult, key: 'ok' | 'fail' | 'taskOk'): number {
  return run.schedulers.reduce((total, scheduler) => total + scheduler[key], 0);
}

function parseSize(argument: string): [preset: string, machines: number] {
  const [preset = '', count = ''] = argument.split('=');
  if (!/^[1-9]\d*$/.test(count)) throw new FlynnError('invalid', `${argument} is not PRESET=MACHINES`);
  return [preset, Number(count)];
}
