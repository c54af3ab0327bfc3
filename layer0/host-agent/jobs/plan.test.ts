import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobStatus } from '@flynn/scheduler/cell';
import type { Container } from '../engine/engine.ts';
import { jobOf } from '../host-fixture.ts';
import { jobLabels } from '../engine/labels.ts';
import { keptContainerMs, keptEndedJobs, plan, unshippedMs } from './plan.ts';
import type { PlanInput } from './plan.ts';
import { newRecord } from './record.ts';
import type { JobRecord } from './record.ts';

const now = 1_000_000;
const job = jobOf('a', {}, { createdAt: now - 100_000 });
const stopping = { ...job, desired: 'stop' as const };

function containerOf(state: Container['state'], rest: Partial<Container> = {}): Container {
  return {
    id: 'c1',
    name: 'flynn-test-h1-a',
    labels: jobLabels(job),
    state,
    imageId: 'i',
    tty: false,
    volumes: [],
    createdAtMs: now - 90_000,
    isOutOfMemory: false,
    ...(state === 'created' ? {} : { startedAtMs: now - 80_000 }),
    ...(state === 'running' ? { address: '10.0.0.2' } : {}),
    ...(state === 'exited' ? { endedAtMs: now - 10, exitCode: 1 } : {}),
    ...rest,
  };
}

function recordOf(status: Partial<JobStatus>, rest: Partial<JobRecord> = {}): JobRecord {
  const blank = newRecord(job, 'h1');
  return { ...blank, ...rest, status: { ...blank.status, ...status } };
}

function stepsOf(input: Partial<Omit<PlanInput, 'records'>> & { record?: JobRecord }): string[] {
  const { record, ...rest } = input;
  const steps = plan({
    hostId: 'h1',
    assigned: [],
    containers: [],
    busy: new Set(),
    isLogShipped: () => true,
    now,
    ...rest,
    records: new Map(record === undefined ? [] : [[record.status.id, record]]),
  });
  return steps.map((step) => {
    if (step.type === 'settle') return `settle ${step.status.state}${step.status.isFinal ? ' for good' : ''}`;
    if (step.type === 'stop') return `stop ${step.cause.type}`;
    if (step.type === 'wait') return `wait ${step.untilMs - now}`;
    return step.type;
  });
}

const running = containerOf('running');
const exited = containerOf('exited');
const healthy = recordOf({ state: 'running', startedAt: now - 80_000 }, { isWatched: true });

const table: { title: string; input: Parameters<typeof stepsOf>[0]; steps: string[] }[] = [
  { title: 'a new job is started', input: { assigned: [job] }, steps: ['start'] },
  {
    title: 'a created container is started',
    input: { assigned: [job], containers: [containerOf('created')] },
    steps: ['start'],
  },
  {
    title: 'one that wrote too much begins anew: its container goes once its log is read',
    input: {
      assigned: [job],
      containers: [exited],
      record: recordOf({ state: 'crashed', startedAt: now - 80_000, endedAt: now - 10 }, { beginsAnew: true }),
    },
    steps: ['remove'],
  },
  {
    title: 'until then it waits',
    input: {
      assigned: [job],
      containers: [exited],
      record: recordOf({ state: 'crashed', startedAt: now - 80_000, endedAt: now - 10 }, { beginsAnew: true }),
      isLogShipped: () => false,
    },
    steps: ['wait 1000'],
  },
  {
    title: 'and for a minute at most',
    input: {
      assigned: [job],
      containers: [containerOf('exited', { endedAtMs: now - 60_000 })],
      record: recordOf({ state: 'crashed', startedAt: now - 80_000, endedAt: now - 60_000 }, { beginsAnew: true }),
      isLogShipped: () => false,
    },
    steps: ['remove'],
  },
  {
    title: 'one that is being worked on is left alone',
    input: { assigned: [job], busy: new Set([job.id]) },
    steps: [],
  },
  {
    title: 'a running container unknown to this agent is adopted',
    input: { assigned: [job], containers: [running] },
    steps: ['adopt'],
  },
  {
    title: 'a watched one needs nothing',
    input: { assigned: [job], containers: [running], record: healthy },
    steps: [],
  },
  {
    title: 'one that was restarted behind its back is watched anew',
    input: { assigned: [job], containers: [{ ...running, startedAtMs: now - 50 }], record: healthy },
    steps: ['adopt'],
  },
  {
    title: 'an unwanted one is stopped',
    input: { assigned: [stopping], containers: [running], record: healthy },
    steps: ['stop unwanted'],
  },
  { title: 'one nobody assigned is stopped', input: { containers: [running] }, steps: ['stop unwanted'] },
  {
    title: 'one that is to stop for a reason is stopped for it',
    input: { assigned: [job], containers: [running], record: { ...healthy, stopCause: { type: 'requested' } } },
    steps: ['stop requested'],
  },
  {
    title: 'a crash is told',
    input: { assigned: [job], containers: [exited], record: healthy },
    steps: ['settle crashed'],
  },
  {
    title: 'an end that was wanted is told',
    input: { assigned: [stopping], containers: [exited], record: healthy },
    steps: ['settle done for good'],
  },
  {
    title: 'a crash that is told waits for its time',
    input: {
      assigned: [job],
      containers: [exited],
      record: recordOf({ state: 'crashed', endedAt: now - 10, nextStartAt: now + 700 }),
    },
    steps: ['wait 700'],
  },
  {
    title: 'and is started again then',
    input: {
      assigned: [job],
      containers: [exited],
      record: recordOf({ state: 'crashed', endedAt: now - 10, nextStartAt: now }),
    },
    steps: ['start'],
  },
  {
    title: 'a time further off than any pause is one of a clock that was set back',
    input: {
      assigned: [job],
      containers: [exited],
      record: recordOf({ state: 'crashed', endedAt: now + 3_600_000, nextStartAt: now + 3_600_000 }),
    },
    steps: ['start'],
  },
  {
    title: 'a second crash is told again',
    input: {
      assigned: [job],
      containers: [exited],
      record: recordOf({ state: 'crashed', endedAt: now - 5_000, nextStartAt: now - 4_000 }),
    },
    steps: ['settle crashed'],
  },
  {
    title: 'a container that is gone while its job runs is a crash',
    input: { assigned: [job], record: healthy },
    steps: ['settle crashed'],
  },
  {
    title: 'and one that is gone from a job that is never restarted ends it',
    input: { assigned: [{ ...job, template: { ...job.template, restart: 'never' } }], record: healthy },
    steps: ['settle crashed for good'],
  },
  {
    title: 'one that is gone while its job was being stopped for a reason is an end for that reason',
    input: {
      assigned: [{ ...job, template: { ...job.template, restart: 'never' } }],
      record: recordOf({ state: 'stopping', startedAt: now - 1_000 }, { stopCause: { type: 'requested' } }),
    },
    steps: ['settle done for good'],
  },
  {
    title: 'a job that was about to start and has no container is started',
    input: { assigned: [job], record: recordOf({ state: 'starting' }) },
    steps: ['start'],
  },
  {
    title: 'a job that never ran and is not wanted is done',
    input: { assigned: [stopping] },
    steps: ['settle done for good'],
  },
  {
    title: 'a job that is over is left alone while it is assigned',
    input: {
      assigned: [job],
      containers: [exited],
      record: recordOf({ state: 'crashed', isFinal: true, endedAt: now - 10 }),
    },
    steps: [],
  },
  {
    title: 'a job past its time is stopped',
    input: {
      assigned: [{ ...job, template: { ...job.template, maxRuntimeMs: 80_000 } }],
      containers: [running],
      record: healthy,
    },
    steps: ['stop expired'],
  },
  {
    title: 'a job with a limited time is looked at when it is over',
    input: {
      assigned: [{ ...job, template: { ...job.template, maxRuntimeMs: 81_000 } }],
      containers: [running],
      record: healthy,
    },
    steps: ['wait 1000'],
  },
];

for (const { title, input, steps } of table) {
  test(`plan: ${title}`, () => assert.deepEqual(stepsOf(input), steps));
}

test('plan: beyond the newest 25 ended jobs containers go once their log is shipped, then their statuses', () => {
  const records = new Map(
    Array.from({ length: keptEndedJobs + 2 }, (_, index): [string, JobRecord] => {
      const record = recordOf({ id: `h1-${index}`, state: 'done', isFinal: true, endedAt: now - 100 + index });
      return [record.status.id, record];
    }),
  );
  const containerOfJob = (index: number) =>
    containerOf('exited', { id: `c${index}`, labels: { 'flynn.job': `h1-${index}` } });
  const input = { hostId: 'h1', assigned: [], busy: new Set<string>(), records, now };
  const brief = (steps: ReturnType<typeof plan>) =>
    steps.filter((step) => step.type !== 'wait').map((step) => `${step.type} ${step.jobId}`);
  const containers = [containerOfJob(0), containerOfJob(26)];
  assert.deepEqual(brief(plan({ ...input, containers, isLogShipped: () => true })), ['forget h1-1', 'remove h1-0']);
  assert.deepEqual(brief(plan({ ...input, containers, isLogShipped: () => false })), ['forget h1-1']);
});

test('plan: the container of an ended job that nobody assigns any more goes soon, its status stays', () => {
  const record = recordOf({ state: 'done', isFinal: true, endedAt: now });
  const input = {
    hostId: 'h1',
    assigned: [],
    busy: new Set<string>(),
    records: new Map([[record.status.id, record]]),
    containers: [containerOf('exited', { id: 'c', labels: { 'flynn.job': record.status.id } })],
    isLogShipped: () => true,
  };
  const brief = (at: number) => plan({ ...input, now: at }).map((step) => step.type);
  assert.deepEqual(brief(now + keptContainerMs - 1), ['wait']);
  assert.deepEqual(brief(now + keptContainerMs), ['remove']);
  const unshipped = { ...input, isLogShipped: () => false };
  assert.deepEqual(plan({ ...unshipped, now: now + unshippedMs - 1 }), []);
  assert.equal(plan({ ...unshipped, now: now + unshippedMs })[0]?.type, 'remove');
  assert.deepEqual(plan({ ...input, containers: [], now: now + 2 * keptContainerMs }), []);
});
