import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Blocked } from './blocked.ts';
import type { Relief } from './blocked.ts';
import type { Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import { makeEvaluation } from './evaluations.ts';
import { mebibyte, workloadOf } from './testing.ts';

let ids = 0;
const newId = () => `i${(ids += 1)}`;
const blockedOne = (
  workloadId: string,
  obstacles: Record<string, number> = { memory: 1 },
  createdAt = 0,
): Evaluation => ({
  ...makeEvaluation(workloadId, 'capacity', { now: createdAt, newId }),
  state: 'blocked',
  reason: '0 placed, 1 waiting',
  obstacles,
});
const reliefOf = (revision: number, more: Partial<Relief> = {}): Relief => ({
  hostId: 'h1',
  attributes: {},
  kind: 'freed',
  revision,
  ...more,
});
const zone = (...values: string[]): Workload['constraints'] => [{ attribute: 'zone', operator: 'in', values }];
const namesOf = (evaluations: readonly Evaluation[]) => evaluations.map(({ workloadId }) => workloadId);

function blockedWith(...entries: [string, Parameters<typeof workloadOf>[0]?, Record<string, number>?][]): Blocked {
  const blocked = new Blocked();
  for (const [id, more, obstacles] of entries)
    blocked.block(blockedOne(id, obstacles), workloadOf({ id, ...more }), 5, 0);
  return blocked;
}

describe('one evaluation per workload waits', () => {
  it('the newest: an older one is returned to be cancelled, whichever comes last', () => {
    const blocked = new Blocked();
    const [older, newer] = [blockedOne('web', {}, 1), blockedOne('web', {}, 2)];
    assert.deepEqual(blocked.block(older, workloadOf(), 5, 9), { woken: undefined, cancelled: undefined });
    const first = blocked.block(newer, workloadOf(), 5, 9);
    assert.deepEqual(
      [first.cancelled?.id, first.cancelled?.state, first.cancelled?.nextId],
      [older.id, 'cancelled', newer.id],
    );
    const late = blocked.block(older, workloadOf(), 5, 9);
    assert.deepEqual([late.cancelled?.id, blocked.evaluationOf('web')?.id, blocked.size], [older.id, newer.id, 1]);
  });
  it('and the same one again takes its own place', () => {
    const blocked = new Blocked();
    const one = blockedOne('web');
    blocked.block(one, workloadOf(), 5, 0);
    assert.deepEqual(blocked.block({ ...one, waiting: 2 }, workloadOf(), 6, 0).cancelled, undefined);
    assert.equal(blocked.evaluationOf('web')?.waiting, 2);
  });
  it('until it is taken out', () => {
    const blocked = blockedWith(['web'], ['all', { constraints: [{ attribute: 'host', operator: 'exists' }] }]);
    for (const id of ['web', 'all', 'unknown']) blocked.remove(id);
    assert.deepEqual([blocked.size, blocked.relieve(reliefOf(6), 0)], [0, []]);
  });
});

describe('a change wakes', () => {
  it('those it may help, pending again, the highest priority first', () => {
    const blocked = blockedWith(['web']);
    const high = { ...blockedOne('high'), priority: 90 };
    blocked.block(high, workloadOf({ id: 'high' }), 5, 0);
    const woken = blocked.relieve(reliefOf(6), 7);
    assert.deepEqual(
      woken.map(({ workloadId, state, updatedAt }) => [workloadId, state, updatedAt]),
      [
        ['high', 'pending', 7],
        ['web', 'pending', 7],
      ],
    );
    assert.deepEqual([blocked.size, blocked.relieve(reliefOf(7), 8)], [0, []]);
  });
  it('only workloads that may go to hosts of the class, which need not have been seen before', () => {
    const entries: Parameters<typeof blockedWith> = [
      ['a', { constraints: zone('a') }],
      ['b', { constraints: zone('b') }],
      ['not-b', { constraints: [{ attribute: 'zone', operator: 'not_in', values: ['b'] }] }],
      ['any'],
    ];
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6, { attributes: { zone: 'a' } }), 0)).sort(), [
      'a',
      'any',
      'not-b',
    ]);
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6, { attributes: { zone: 'b' } }), 0)).sort(), [
      'any',
      'b',
    ]);
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6, { attributes: { rack: '1' } }), 0)).sort(), [
      'any',
      'not-b',
    ]);
  });
  it('also those that came after their class was seen', () => {
    const blocked = blockedWith(['first', { constraints: zone('a') }]);
    blocked.relieve(reliefOf(6, { attributes: { zone: 'b' } }), 0);
    blocked.block(blockedOne('late'), workloadOf({ id: 'late', constraints: zone('b') }), 6, 0);
    assert.deepEqual(namesOf(blocked.relieve(reliefOf(7, { attributes: { zone: 'b' } }), 0)), ['late']);
  });
  it('only those that miss what it gives', () => {
    const entries: Parameters<typeof blockedWith> = [
      ['memory', {}, { memory: 3 }],
      ['port', {}, { 'port 80 is taken': 1 }],
      ['closed', {}, { cordoned: 2 }],
      ['large', {}, { 'asks for more memory than the host has': 2 }],
    ];
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6), 0)), ['memory', 'port']);
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6, { kind: 'opened' }), 0)), [
      'memory',
      'port',
      'closed',
      'large',
    ]);
    assert.deepEqual(namesOf(blockedWith(['nowhere', {}, {}]).relieve(reliefOf(6, { kind: 'opened' }), 0)), [
      'nowhere',
    ]);
  });
  it('only those that fit in what is free now', () => {
    const free = { memoryBytes: 150 * mebibyte, cpuMillis: 100 };
    const large = { template: { resources: { memoryBytes: 151 * mebibyte, cpuMillis: 0 } } };
    const blocked = blockedWith(
      ['small'],
      ['large', large],
      ['fast', { template: { resources: { memoryBytes: 1, cpuMillis: 101 } } }],
    );
    assert.deepEqual(namesOf(blocked.relieve(reliefOf(6, { free }), 0)), ['small']);
  });
  it('always asks those whose hosts no class tells: bound to single hosts, or to distinct values', () => {
    const toHost = { constraints: [{ attribute: 'host', operator: 'in' as const, values: ['h1'] }] };
    const distinct = { constraints: [{ attribute: 'zone', operator: 'distinct' as const }] };
    const entries: Parameters<typeof blockedWith> = [
      ['host', toHost],
      ['distinct', distinct],
    ];
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6), 0)), ['host', 'distinct']);
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6, { hostId: 'h2' }), 0)), ['distinct']);
  });
  it('that a stopped job has ended, only those that may take its room', () => {
    const blocked = blockedWith(
      ['web'],
      ['urgent', { priority: 80, mayPreempt: true }],
      ['modest', { mayPreempt: true }],
    );
    assert.deepEqual(namesOf(blocked.relieve(reliefOf(6, { kind: 'ended' }), 0)), ['urgent']);
  });
  it('that a stopped job has ended, only those that its room is enough for with what else is going there', () => {
    const urgent = { priority: 80, mayPreempt: true };
    const toHost = [{ attribute: 'host', operator: 'in' as const, values: ['h2'] }];
    const entries: Parameters<typeof blockedWith> = [
      ['urgent', urgent],
      ['large', { ...urgent, template: { resources: { memoryBytes: 151 * mebibyte, cpuMillis: 0 } } }],
      ['elsewhere', { ...urgent, constraints: toHost }],
      ['port', urgent, { 'port 80 is taken': 1 }],
    ];
    const free = { memoryBytes: 150 * mebibyte, cpuMillis: 100 };
    assert.deepEqual(namesOf(blockedWith(...entries).relieve(reliefOf(6, { kind: 'ended', free }), 0)), ['urgent']);
  });
  it('knows whether any of those that wait may take the room of others', () => {
    const blocked = blockedWith(['web'], ['modest', { mayPreempt: true }]);
    assert.equal(blocked.hasPreemptors, false);
    blocked.block(blockedOne('urgent'), workloadOf({ id: 'urgent', priority: 80, mayPreempt: true }), 5, 0);
    assert.equal(blocked.hasPreemptors, true);
    blocked.remove('urgent');
    assert.equal(blocked.hasPreemptors, false);
  });
  it('each once, the next one a moment after it had its turn, and all others as well', () => {
    const blocked = new Blocked();
    const write = (id: string, createdAt: number, plannedAt: number) =>
      blocked.block(blockedOne(id, { memory: 1 }, createdAt), workloadOf({ id }), plannedAt, 0);
    for (let n = 0; n < 30; n += 1) write(`w${n}`, n, 5);
    const turns = blocked.relieve(reliefOf(6), 100).map(({ workloadId, waitUntil }) => [workloadId, waitUntil]);
    assert.deepEqual(turns.slice(0, 3), [
      ['w0', undefined],
      ['w1', 105],
      ['w2', 110],
    ]);
    assert.deepEqual([turns.length, turns.at(-1), blocked.size], [30, ['w29', 200], 0]);
    write('w2', 2, 6);
    const again = blocked.relieve(reliefOf(7), 300);
    assert.deepEqual(
      again.map(({ workloadId, waitUntil }) => [workloadId, waitUntil]),
      [['w2', 310]],
      'two that others may be looking at go before',
    );
  });
  it('and where all were woken by the first of many hosts that come at once, none is compared with the others', () => {
    const blocked = new Blocked();
    let looks = 0;
    const { demand, ...others } = workloadOf({ id: 'web' });
    const workload = Object.defineProperty({ ...others, demand }, 'demand', { get: () => ((looks += 1), demand) });
    blocked.block(blockedOne('web'), workload, 5, 0);
    const free = { memoryBytes: demand.memoryBytes, cpuMillis: demand.cpuMillis };
    assert.equal(blocked.relieve(reliefOf(6, { kind: 'opened', free }), 0).length, 1);
    const before = looks;
    for (let at = 7; at < 100; at += 1) blocked.relieve(reliefOf(at, { kind: 'opened', free }), 0);
    assert.deepEqual([looks - before, before > 0], [0, true]);
  });
});

describe('what became possible between planning and waiting', () => {
  const after = (
    revision: number,
    more: Partial<Relief>,
    workload: Parameters<typeof workloadOf>[0],
    plannedAt: number,
  ) => {
    const blocked = blockedWith(['other', { constraints: zone('x') }]);
    blocked.relieve(reliefOf(revision, more), 0);
    const { woken } = blocked.block(blockedOne('web'), workloadOf(workload), plannedAt, 9);
    return [woken?.state, blocked.evaluationOf('web') !== undefined];
  };
  it('wakes it at once, if it may help it', () => {
    assert.deepEqual(after(10, {}, {}, 9), ['pending', false]);
    assert.deepEqual(after(10, { attributes: { zone: 'a' } }, { constraints: zone('a') }, 9), ['pending', false]);
  });
  it('also that a job ended which nobody had told to stop by then', () => {
    const free = { memoryBytes: 0, cpuMillis: 0 };
    const urgent = { priority: 80, mayPreempt: true };
    assert.deepEqual(after(10, { kind: 'ended', free }, urgent, 9), ['pending', false]);
    assert.deepEqual(after(10, { kind: 'ended', free }, urgent, 10), [undefined, true]);
  });
  it('is nothing new to one that was planned on it', () => {
    assert.deepEqual(after(10, {}, {}, 10), [undefined, true]);
  });
  it('is nothing to one that may not go there', () => {
    assert.deepEqual(after(10, { attributes: { zone: 'b' } }, { constraints: zone('a') }, 9), [undefined, true]);
  });
  it('is known of a host by its id too, though another of its class changed since', () => {
    const toHost = [{ attribute: 'host', operator: 'in' as const, values: ['h1'] }];
    const blocked = new Blocked();
    for (const [revision, hostId] of [
      [10, 'h1'],
      [11, 'h2'],
    ] as const) {
      blocked.relieve(reliefOf(revision, { hostId, kind: 'opened' }), 0);
    }
    const { woken } = blocked.block(blockedOne('web', { cordoned: 1 }), workloadOf({ constraints: toHost }), 9, 9);
    assert.equal(woken?.state, 'pending');
  });
  it('is made up for when the classes were too coarse to tell', () => {
    const constraints = [{ attribute: 'disk', operator: 'in' as const, values: ['ssd'] }];
    assert.deepEqual(after(10, { attributes: { disk: 'hdd' } }, { constraints }, 9), ['pending', false]);
    assert.deepEqual(after(10, { attributes: { disk: 'hdd' } }, { constraints }, 10), [undefined, true]);
  });
});
