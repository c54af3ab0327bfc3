/** The checks of all of the cluster: clocks, etcd, hosts, and whether the cell's work gets done. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { hostSettingsSchema, workloadSchema } from '@flynn/scheduler/cell';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import type { Assignment, HostRecord, JobStatus, Workload } from '@flynn/scheduler/cell';
import type { Evaluation } from '@flynn/scheduler/evaluation';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import { clockFindings } from './clocks.ts';
import { type EtcdFacts, etcdFindings } from './etcd.ts';
import type { Found } from './finding.ts';
import { hostFindings, workFindings } from './work.ts';
import type { WorkFacts } from './work.ts';

const brief = (findings: readonly Found[]) =>
  findings.map(({ severity, subject, what }) => `${severity} ${subject}: ${what}`);
const now = 1_000 * 60_000;
const ago = (seconds: number) => now - seconds * 1_000;

describe('clocks', () => {
  const sample = (hostId: string, offsetMs: number, tookMs = 20) => ({
    hostId,
    sentMs: 1_000,
    receivedMs: 1_000 + tookMs,
    theirMs: 1_000 + tookMs / 2 + offsetMs,
  });

  it('that agree are passed over, and so is what the way there may explain', () => {
    assert.deepEqual(clockFindings([]), []);
    assert.deepEqual(clockFindings([sample('h1', 0)]), []);
    assert.deepEqual(clockFindings([sample('h1', 0), sample('h2', 900), sample('h3', -50)]), []);
    assert.deepEqual(clockFindings([sample('h1', 0), sample('h2', 1_900, 2_000), sample('h3', 0)]), []);
  });

  it('that differ from most are named; of two both are', () => {
    assert.deepEqual(brief(clockFindings([sample('h1', 0), sample('h2', -5_000), sample('h3', 100)])), [
      'warning host h2: its clock is 5.0 s behind those of most hosts',
    ]);
    assert.match(
      brief(clockFindings([sample('h1', 0), sample('h2', 3_600_000), sample('h3', 0)])).join(''),
      /^critical host h2/,
    );
    assert.equal(clockFindings([sample('h1', 0), sample('h2', 4_000)])[0]?.matter, 'clock');
    assert.deepEqual(brief(clockFindings([sample('h1', 0), sample('h2', 4_000)])), [
      'warning host h1: its clock is 4.0 s behind the other host’s',
      'warning host h2: its clock is 4.0 s ahead of the other host’s',
    ]);
  });
});

describe('etcd', () => {
  const mebibyte = 1024 ** 2;
  const quotaBytes = 2_048 * mebibyte;
  type Member = EtcdStatus['members'][number];
  const member = (name: string, change: Partial<NonNullable<Member['answer']>> = {}): Member => ({
    endpoint: `https://${name}:2379`,
    answer: {
      id: name,
      storeId: 's1',
      version: '3.5.16',
      sizeBytes: 30 * mebibyte,
      usedBytes: 20 * mebibyte,
      leaderId: 'h1',
      raftIndex: 100_000,
      isLearner: false,
      tookMs: 3,
      ...change,
    },
  });
  const away = (name: string): Member => ({ endpoint: `https://${name}:2379`, error: 'connection refused' });
  const of = (members: Member[], { alarms = [], ...facts }: Partial<EtcdFacts> & Partial<EtcdStatus> = {}) =>
    etcdFindings(
      { members, alarms },
      { quotaBytes, nameOf: (endpoint) => new URL(endpoint).hostname, hasMajority: false, settledHosts: 1, ...facts },
    );

  it('that is well has nothing to be said of', () => {
    assert.deepEqual(of([member('h1'), member('h2'), member('h3')]), []);
  });

  it('tells members that are away, and what that leaves', () => {
    const one = of([member('h1'), member('h2'), away('h3')]);
    assert.deepEqual(brief(one), ['critical etcd: h3 does not answer (2 of 3 members do): connection refused']);
    assert.match(one[0]?.why ?? '', /if one more is lost/);
    assert.match(of([member('h1'), away('h2'), away('h3')])[0]?.why ?? '', /no majority/);
    assert.match(of([member('h1', { leaderId: undefined })])[0]?.what ?? '', /h1 knows of no leader/);
  });

  it('does not tell that there is no majority while the store answers: who is told so gives members up', () => {
    const seen = of([member('h1'), away('h2'), away('h3')], { hasMajority: true });
    assert.deepEqual(brief(seen), ['warning etcd: h2, h3 do not answer (1 of 3 members do): connection refused']);
    assert.match(seen[0]?.why ?? '', /the store answers/);
    assert.doesNotMatch(seen[0]?.remedy ?? '', /recover|replace|remove/);
    const [one] = of([member('h1'), member('h2'), away('h3')], { hasMajority: true });
    assert.match(one?.why ?? '', /if one more is lost/);
  });

  it('that is two stores says which members are of which, whichever of them is asked', () => {
    const other = (name: string) => member(name, { storeId: 's2', raftIndex: 7 });
    const fromOld = brief(of([other('h1'), member('h2'), member('h3')], { hasMajority: true }));
    assert.deepEqual(fromOld, ['critical etcd: there are two stores: h1 is of another than h2, h3']);
    const made = of([other('h1')], { strangers: [member('h2'), member('h3'), away('h4')] });
    assert.deepEqual(brief(made), ['critical etcd: there are two stores: h2, h3 are of another than h1']);
    assert.match(made[0]?.remedy ?? '', /snapshot save FILE.*"There are two stores"/);
    assert.deepEqual(of([member('h1')], { strangers: [away('h2')] }), []);
  });

  it('has fewer members than it should have, while the hosts for them are there', () => {
    const few = (members: number, settledHosts: number) =>
      of(
        ['h1', 'h2', 'h3'].slice(0, members).map((name) => member(name)),
        { settledHosts },
      );
    assert.deepEqual([few(1, 1), few(1, 2), few(3, 3), few(3, 5), few(2, 1)], [[], [], [], [], []]);
    assert.deepEqual(brief(few(1, 3)), ['warning etcd: it has 1 member, and should have 3 on the hosts there are']);
    assert.match(few(1, 3)[0]?.why ?? '', /all that the cluster knows is on one host/);
    assert.match(few(2, 4)[0]?.why ?? '', /if either is lost/);
  });

  it('tells a database that fills up, needs defragmenting, or is full', () => {
    const at = (sizeMib: number, usedMib: number) =>
      of([member('h1', { sizeBytes: sizeMib * mebibyte, usedBytes: usedMib * mebibyte })]);
    assert.deepEqual(at(200, 10), []);
    assert.match(brief(at(400, 100)).join(''), /^warning etcd: .*400 MiB with 100 MiB in it: it needs defragmenting$/);
    assert.match(brief(at(1_300, 1_200)).join(''), /^warning etcd: .*takes 63 % of its quota/);
    assert.match(brief(at(1_800, 1_700)).join(''), /^critical etcd: .*88 %/);
    assert.match(at(1_800, 100)[0]?.remedy ?? '', /^flynn-host etcd defragment$/);
    const full = of([member('h1')], { alarms: [{ memberId: 'h1', kind: 'nospace' }] });
    assert.match(brief(full).join(''), /^critical etcd: h1 has no room left .*NOSPACE/);
  });

  it('tells members whose data differs, why nothing can be written, and the way out', () => {
    const corrupt = (memberId: string) =>
      of([member('h1'), member('h2'), member('h3')], { alarms: [{ memberId, kind: 'corrupt' }] })[0];
    assert.match(corrupt('h9')?.what ?? '', /member h9 differs/);
    assert.match(corrupt('h2')?.what ?? '', /^the data of h2 differs/);
    assert.match(corrupt('h2')?.why ?? '', /takes no writes and grants no leases/);
    assert.match(corrupt('h2')?.remedy ?? '', /on that host: flynn-host etcd replace --yes/);
    assert.match(corrupt('0')?.what ?? '', /^the data of its members differs, and none has what most have/);
  });

  it('tells a member that is behind or slow', () => {
    assert.match(brief(of([member('h1'), member('h2', { raftIndex: 1_000 })])).join(''), /h2 is 99000 changes behind/);
    assert.match(brief(of([member('h1', { tookMs: 800 })])).join(''), /h1 took 800 ms/);
  });
});

describe('work of the cell', () => {
  const workload = (id: string, count: number): Workload =>
    workloadSchema.parse({
      id,
      kind: 'service',
      count,
      version: 'v1',
      demand: { memoryBytes: 1, cpuMillis: 1, family: id },
    });
  const evaluation = (state: Evaluation['state'], seconds: number, change: Partial<Evaluation> = {}): Evaluation =>
    evaluationSchema.parse({
      id: `e${seconds}`,
      workloadId: 'w1',
      cause: 'workload',
      state,
      createdAt: ago(seconds),
      ...change,
    });
  const assignment = (seconds: number, ...ids: string[]): Assignment => ({
    planId: 'p',
    groups: [
      {
        workloadId: 'w1',
        version: 'v1',
        demand: { memoryBytes: 1, cpuMillis: 1, hostPorts: [], family: 'w1', volumes: [] },
        singleton: false,
        jobs: ids.map((id, index) => ({ id, index, desired: 'run', createdAt: ago(seconds) })),
      },
    ],
  });
  const status = (id: string): JobStatus => ({
    id,
    hostId: 'h1',
    workloadId: 'w1',
    version: 'v1',
    meta: {},
    state: 'running',
    isFinal: false,
    restarts: 0,
    createdAt: ago(600),
  });
  const quiet: WorkFacts = {
    workloads: [],
    evaluations: [],
    statuses: [],
    assignments: new Map(),
    present: new Set(['h1']),
    nameOf: (id) => `app ${id}`,
  };
  const of = (facts: Partial<WorkFacts>) => workFindings({ ...quiet, ...facts }, now);

  it('that goes on is passed over', () => {
    const facts = {
      workloads: [workload('w1', 2)],
      evaluations: [evaluation('complete', 600), evaluation('pending', 5)],
      assignments: new Map([['h1/p', assignment(600, 'a')]]),
      statuses: [status('a')],
    };
    assert.deepEqual(of(facts), []);
  });

  it('tells evaluations that nobody looks at, but not those that are to wait', () => {
    assert.deepEqual(of({ evaluations: [evaluation('pending', 600, { waitUntil: now + 5_000 })] }), []);
    const [late] = of({ evaluations: [evaluation('pending', 40), evaluation('pending', 90)] });
    assert.equal(late?.severity, 'warning');
    assert.equal(late.what, '2 evaluations wait to be looked at; the oldest is of app w1');
    assert.equal(late.since, new Date(ago(90)).toISOString());
    assert.equal(of({ evaluations: [evaluation('pending', 400)] })[0]?.severity, 'critical');
  });

  it('tells what waits for a place, once for each workload, the rest as a count', () => {
    const reason = '1 placed, 2 waiting: memory (2 hosts full)';
    assert.deepEqual(of({ evaluations: [evaluation('blocked', 30, { reason })] }), []);
    const twice = [evaluation('blocked', 100, { reason: 'old' }), evaluation('blocked', 80, { reason })];
    assert.deepEqual(brief(of({ evaluations: twice })), [`warning app w1: jobs of it wait for a place: ${reason}`]);
    const many = Array.from({ length: 15 }, (_, at) =>
      evaluation('blocked', 80, { id: `e${at}`, workloadId: `w${at}` }),
    );
    const told = of({ evaluations: many });
    assert.equal(told.length, 11);
    assert.match(told.at(-1)?.what ?? '', /of 5 more workloads/);
  });

  it('tells jobs that have no place while nobody looks for one', () => {
    const facts = {
      workloads: [workload('w1', 2)],
      assignments: new Map([['h1/p', assignment(600, 'a')]]),
      statuses: [status('a')],
    };
    assert.deepEqual(brief(of(facts)), ['critical app w1: 1 of 2 jobs have no place, and nobody is looking for one']);
    assert.deepEqual(of({ ...facts, evaluations: [evaluation('complete', 20)] }), []);
  });

  it('tells a host that is there and does not begin with what it was given', () => {
    const assignments = new Map([['h1/p', assignment(90, 'a', 'b')]]);
    assert.deepEqual(brief(of({ assignments, statuses: [status('a')] })), [
      'critical host h1: 1 job placed there have not been begun with',
    ]);
    assert.deepEqual(of({ assignments, present: new Set() }), []);
    assert.deepEqual(of({ assignments: new Map([['h1/p', assignment(10, 'a')]]) }), []);
  });
});

it('hosts that are away are told, and drains that do not end', () => {
  const record: HostRecord = {
    id: 'h1',
    address: '10.0.0.1',
    apiPort: 1,
    capacity: { memoryBytes: 1, cpuMillis: 1 },
    attributes: {},
    cordoned: false,
    startedAt: 0,
  };
  const settings = hostSettingsSchema.parse({});
  const draining = hostSettingsSchema.parse({ cordoned: true, drain: { startedAt: ago(7_200) } });
  assert.deepEqual(
    hostFindings([{ id: 'h1', record, settings }], () => 3, now),
    [],
  );
  assert.deepEqual(
    hostFindings([{ id: 'h1', record, settings: draining }], () => 0, now),
    [],
  );
  const drained = hostFindings([{ id: 'h1', record, settings: draining }], () => 3, now);
  assert.match(brief(drained).join(''), /3 jobs of it found no/);
  assert.equal(drained[0]?.matter, 'drain', 'beside its clock, which the same check finds');
  const [away] = hostFindings([{ id: 'h2', settings }], () => 0, now);
  assert.match(`${away?.subject} ${away?.what} ${away?.remedy}`, /host h2 it is away.*flynn host remove h2 --yes/);
});
