import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Columns } from '../placement/columns.ts';
import type { CommitMode } from '../placement/transaction.ts';
import { FirstFit } from './first-fit.ts';
import { multiply, replayOwn } from './home-slices.ts';
import { parseJobs, type OmegaJob } from './job-list.ts';
import { Lcg } from './lcg.ts';
import { differences, parseReferences } from './reference.ts';
import { replay, runSeconds, type RunConfig, type RunResult } from './replay.ts';
import type { Thinking } from './shared-cell.ts';

const thinking: Thinking = {
  batch: { jobSeconds: 1, taskSeconds: 0.5 },
  service: { jobSeconds: 10, taskSeconds: 0 },
};

function configOf(more: Partial<RunConfig> = {}): RunConfig {
  const modes: CommitMode = { conflict: 'sequence_numbers', transaction: 'incremental' };
  return { ...modes, machines: 1, schedulers: { batch: 1, service: 1 }, thinking, ...more };
}

function jobs(...lines: string[]): OmegaJob[] {
  return parseJobs(lines.map((line) => line.replaceAll(' ', '\t')).join('\n'));
}

test('the generator is the documented one', () => {
  // What its documentation's algorithm gives for the seed 0: nextInt(10) three times; nextDouble begins with the same bits.
  const lcg = new Lcg(0);
  assert.deepEqual([lcg.nextInt(10), lcg.nextInt(10), lcg.nextInt(10)], [0, 8, 9]);
  assert.ok(Math.abs(new Lcg(0).next() - 0.730967787376657) < 2e-8);
  assert.equal(new Lcg(0).nextInt(1_024), Math.floor(0.730967787376657 * 1_024));
});

describe('a cell of one machine with room for four tasks, by hand', () => {
  // The service scheduler copies the empty cell at 0 and thinks until 10. The batch scheduler copies it at 5, thinks
  // 1 + 2 × 0.5 s, commits two tasks at 7. At 10 the service's two tasks were drawn with the sequence number 0.
  const list = jobs('S 0 2 100 1 2', 'B 5 2 1000 1 2');
  const outcomes: [
    mode: CommitMode,
    expected: Partial<Record<'ok' | 'fail' | 'retried' | 'taskOk' | 'taskFail', number>>,
  ][] = [
    // Both conflict; tried again at 11, with the cell copied anew, committed at 21.
    [
      { conflict: 'sequence_numbers', transaction: 'incremental' },
      { ok: 1, fail: 1, retried: 1, taskOk: 2, taskFail: 2 },
    ],
    // The first conflict ends the transaction: only one task was tried.
    [
      { conflict: 'sequence_numbers', transaction: 'all_or_nothing' },
      { ok: 1, fail: 1, retried: 1, taskOk: 2, taskFail: 1 },
    ],
    // There is room for all four.
    [
      { conflict: 'resource_fit', transaction: 'incremental' },
      { ok: 1, fail: 0, retried: 0, taskOk: 2, taskFail: 0 },
    ],
    [
      { conflict: 'resource_fit', transaction: 'all_or_nothing' },
      { ok: 1, fail: 0, retried: 0, taskOk: 2, taskFail: 0 },
    ],
  ];
  for (const [mode, expected] of outcomes) {
    test(`${mode.conflict} ${mode.transaction}`, () => {
      const { schedulers, workloads } = replay(list, configOf(mode));
      const service = schedulers.find(({ name }) => name === 'OmegaService-1');
      const retries = expected.fail ?? 0;
      const idle = { name: 'OmegaService-1', noRes: 0, abandoned: 0, left: 0, findFail: 0 };
      assert.deepEqual(service, { ...idle, ...expected, useful: 10, wasted: 10 * retries });
      const [batch] = schedulers;
      assert.deepEqual([batch?.ok, batch?.taskOk, batch?.useful], [1, 2, 2]);
      assert.deepEqual(
        workloads.map(({ name, jobs: count, waitFull }) => [name, count, waitFull]),
        [
          ['Batch', 1, 0],
          ['Service', 1, 0],
        ],
      );
    });
  }

  test('two more tasks than there is room for wait for what ends, in whole transactions of fits', () => {
    // Batch takes all at 3 (1 + 4 × 0.5), its tasks end at 103. The service job (10 s each) finds nothing at 20, 31, … , 97
    // (copied at 87); the attempt copied at 98 finds nothing at 108; the one copied at 109 commits at 119.
    const full = jobs('B 0 4 100 1 2', 'S 10 4 50 1 2');
    const service = replay(full, configOf({ conflict: 'resource_fit' })).schedulers[1];
    assert.deepEqual([service?.noRes, service?.ok, service?.taskOk], [9, 1, 4]);
    assert.deepEqual([service?.wasted, service?.useful], [90, 10]);
    assert.equal(service?.findFail, 9, 'the one machine, once an attempt');
  });

  test('a job that fits nowhere is given up after more than a hundred attempts, and what runs from the start stays', () => {
    // Four tasks, of which one ends as the first thing after the end.
    const { schedulers, cpuTaken } = replay(jobs('P 0 4 43200 1 2', 'B 0 1 10 1 2'), configOf());
    assert.deepEqual([schedulers[0]?.noRes, schedulers[0]?.abandoned, cpuTaken], [101, 1, 3]);
  });

  test('what is enqueued while the scheduler thinks waits its turn', () => {
    const { workloads, schedulers } = replay(jobs('S 0 1 5 1 2', 'S 4 1 5 1 2', 'S 21599 1 5 1 2'), configOf());
    assert.equal(workloads[1]?.waitFirst, 6 / 3);
    assert.equal(schedulers[1]?.ok, 3, 'the first thing after the end still happens');
  });
});

test('jobs are dealt in turn, by one counter over both classes that is raised before it is used', () => {
  const list = jobs('B 0 1 9 1 2', 'B 1 1 9 1 2', 'B 2 1 9 1 2', 'S 3 1 9 1 2', 'S 4 1 9 1 2');
  const { schedulers } = replay(list, configOf({ machines: 3, schedulers: { batch: 2, service: 3 } }));
  assert.deepEqual(
    schedulers.map(({ name, ok }) => `${name} ${ok}`),
    ['OmegaBatch-1 1', 'OmegaBatch-2 2', 'OmegaService-1 0', 'OmegaService-2 1', 'OmegaService-3 1'],
  );
});

test('first fit finds the machine with room however often it drew full ones', () => {
  const firstFit = new FirstFit(8, 0);
  const cell = new Columns(8);
  for (let machine = 0; machine < 8; machine++) cell.reset(machine, 16, machine === 5 ? 4 : 0);
  for (let job = 0; job < 50; job++) {
    firstFit.refresh(cell);
    const claims = firstFit.place(
      { class: 'batch', submitSeconds: 0, tasks: 5, durationSeconds: 1, cpu: 1, memory: 1 },
      5,
    );
    assert.deepEqual(
      claims.map(({ index, sequence }) => [index, sequence]),
      [
        [5, 0],
        [5, 1],
        [5, 2],
        [5, 3],
      ],
    );
  }
});

test('a comparison shows every figure that differs, counts exactly, decimals within 1e-5', () => {
  const run = replay(jobs('B 0 2 100 1 2'), configOf());
  const [batch] = run.schedulers;
  assert.ok(batch !== undefined);
  assert.deepEqual(differences(run, run), []);
  const near: RunResult = {
    ...run,
    schedulers: [{ ...batch, useful: batch.useful * 1.000009 }, ...run.schedulers.slice(1)],
  };
  assert.deepEqual(differences(run, near), []);
  const off: RunResult = { ...run, schedulers: [{ ...batch, useful: batch.useful * 1.00002, taskOk: 3 }] };
  assert.deepEqual(differences(run, off), [
    'scheduler OmegaBatch-1 taskOk: 3, reference 2',
    'scheduler OmegaBatch-1 useful: 2.00004, reference 2',
    'scheduler OmegaService-1 did not run',
  ]);
});

test('references and job lists are read strictly', () => {
  const { schedulers, workloads, cpuTaken } = replay(jobs('B 0 2 100 1 2'), configOf());
  const line = {
    preset: 'x',
    cfg: 'resource-fit all-or-nothing 2 1 1 0.05 0.1 0.005',
    occCpu: cpuTaken,
    sched: schedulers,
    wl: workloads,
  };
  const numberless = JSON.stringify({ ...line, wl: [] });
  const [reference] = parseReferences(`${numberless}\n`);
  assert.deepEqual(reference?.config, {
    conflict: 'resource_fit',
    transaction: 'all_or_nothing',
    schedulers: { batch: 2, service: 1 },
    thinking: { batch: { jobSeconds: 1, taskSeconds: 0.05 }, service: { jobSeconds: 0.1, taskSeconds: 0.005 } },
  });
  assert.throws(() => parseReferences(JSON.stringify({ ...line, wl: [], cfg: 'resource-fit sometimes 2 1 1 1 1 1' })));
  assert.throws(() => parseJobs('B\t0\t2\t100\t1'), /line 1 of the job list/);
  assert.throws(() => parseJobs('X\t0\t2\t100\t1\t2'), /line 1 of the job list/);
});

/** Many small batch jobs that come and go and some services that stay: the shape of a cell at two thirds. */
function workloadOf(machines: number): OmegaJob[] {
  const lcg = new Lcg(11);
  const draw = (mean: number): number => -Math.log(1 - lcg.next()) * mean;
  const list: OmegaJob[] = [];
  const job = { cpu: 1, memory: 2 };
  const perJob = 30 * 74;
  for (let at = 0; at < runSeconds / 6; at += draw(perJob / (machines * 2.1))) {
    list.push({ ...job, class: 'batch', submitSeconds: at, tasks: Math.ceil(draw(30)), durationSeconds: draw(74) });
  }
  for (let at = 0; at < runSeconds / 6; at += draw((10 * 1_800) / (machines * 0.5))) {
    list.push({
      ...job,
      class: 'service',
      submitSeconds: at,
      tasks: Math.ceil(draw(10)),
      durationSeconds: draw(1_800),
    });
  }
  return list;
}

test('home slices and fit checks: hardly a conflict where the same schedulers without them have many', () => {
  const machines = 1_500;
  const list = workloadOf(machines);
  const config = {
    machines,
    conflict: 'resource_fit',
    transaction: 'incremental',
    thinking: { batch: { jobSeconds: 1, taskSeconds: 0.05 }, service: { jobSeconds: 0.1, taskSeconds: 0.005 } },
  } as const;
  const own = replayOwn(list, { ...config, schedulers: 8 });
  const theirs = replay(list, { ...config, schedulers: { batch: 8, service: 1 } }).schedulers;
  const sum = (key: 'ok' | 'fail'): number => theirs.reduce((total, scheduler) => total + scheduler[key], 0);
  const ratio = { own: own.conflicts / own.commits, omega: sum('fail') / sum('ok') };
  assert.ok(own.tasks > 100_000, `${own.tasks} tasks`);
  assert.ok(ratio.own <= 0.005, `${own.conflicts} conflicts in ${own.commits} commits`);
  assert.ok(ratio.omega >= 10 * ratio.own, `Omega's own: ${ratio.omega}`);
});

test('a list is multiplied over the same time', () => {
  const list = multiply(jobs('B 100 2 10 1 2', 'S 20000 2 10 1 2'), 4);
  assert.equal(list.length, 8);
  assert.ok(list.every(({ submitSeconds }) => submitSeconds >= 0 && submitSeconds < runSeconds));
  assert.deepEqual(
    list.filter((job) => job.class === 'batch').map(({ submitSeconds }) => submitSeconds),
    [100, 5_500, 10_900, 16_300],
  );
});
