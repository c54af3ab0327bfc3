import assert from 'node:assert/strict';
import { describe, it, mock, test } from 'node:test';
import { cellKeys, demandSchema, workloadSchema } from './cell.ts';
import { jobTemplateSchema } from './job-template.ts';
import { evaluationSchema, evaluationStates } from './evaluation.ts';
import type { HostRecord, OperatorSettings } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import {
  advance,
  demandOf,
  evaluationPut,
  giveUp,
  isEnded,
  makeEvaluation,
  supersede,
  workloadChange,
  workloadRemoval,
} from './evaluations.ts';
import { hostOf, workloadInputOf, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';
import { Triggers, reliefOf } from './triggers.ts';

let ids = 0;
const newId = () => `i${(ids += 1)}`;
const context = { now: 5, newId };

describe('what is written', () => {
  it('for a change: the workload with its demand, its template apart, and an evaluation of its priority', () => {
    const template = {
      hostNetwork: true,
      ports: [{ port: 443 }, { port: 80 }],
      meta: { 'flynn.app': 'router', 'flynn.type': 'web' },
    };
    const [workload, stored, evaluation, ...more] = workloadChange(
      workloadInputOf({ id: 'r', priority: 90, template }),
      context,
    ).map((operation) => {
      assert.ok('put' in operation);
      return { key: operation.put, value: JSON.parse(operation.value) as unknown };
    });
    assert.ok(workload !== undefined && stored !== undefined && evaluation !== undefined);
    assert.deepEqual([workload.key, stored.key, more], [cellKeys.workload('r'), cellKeys.template('r', 'v1'), []]);
    assert.deepEqual(workloadSchema.strict().parse(workload.value).demand.hostPorts, [80, 443]);
    assert.equal(jobTemplateSchema.parse(stored.value).hostNetwork, true);
    const { id, priority, state, cause } = evaluationSchema.parse(evaluation.value);
    assert.deepEqual([evaluation.key, priority, state, cause], [cellKeys.evaluation(id), 90, 'pending', 'workload']);
  });
  it('for a removal: one evaluation that goes before all others', () => {
    const [removal, put] = workloadRemoval('web', context);
    assert.deepEqual(removal, { delete: cellKeys.workload('web') });
    assert.ok(put !== undefined && 'put' in put);
    assert.deepEqual(
      [evaluationSchema.parse(JSON.parse(put.value)).cause, evaluationSchema.parse(JSON.parse(put.value)).priority],
      ['removal', 100],
    );
  });
  it('each time under an id of its own', () => {
    const keys = [1, 2]
      .map(() => evaluationPut('web', 'job_ended', context))
      .map((one) => ('put' in one ? one.put : ''));
    assert.equal(new Set(keys).size, 2);
  });
  it('never for what is no workload', () => {
    assert.throws(() => workloadChange({ ...workloadInputOf(), count: -1 }, context), { name: 'ZodError' });
  });
  it('a demand has host ports in the host’s network only, and the family of the app and type', () => {
    const template = jobTemplateSchema.parse({
      ...workloadInputOf().template,
      ports: [{ port: 80 }],
      volumes: [{ name: 'data', path: '/d' }],
    });
    const { hostPorts, family, volumes } = demandSchema.parse(demandOf('web', template));
    assert.deepEqual([hostPorts, family, volumes], [[], 'web', ['data']]);
    assert.equal(demandOf('web', { ...template, meta: { 'flynn.app': 'a' } }).family, 'a/');
  });
});

describe('the states of an evaluation', () => {
  const inState = (state: Evaluation['state']): Evaluation => ({
    ...makeEvaluation('web', 'workload', context),
    state,
    reason: 'before',
    waitUntil: 3,
  });
  const edges: Record<Evaluation['state'], Evaluation['state'][]> = {
    pending: ['blocked', 'complete', 'failed', 'cancelled'],
    blocked: ['pending', 'cancelled'],
    complete: [],
    failed: [],
    cancelled: [],
  };
  it('change along these edges only', () => {
    for (const from of evaluationStates) {
      for (const to of evaluationStates) {
        if (from === to) continue;
        if (edges[from].includes(to)) {
          const moved = advance(inState(from), to, 7, { reason: 'after' });
          assert.deepEqual([moved.state, moved.updatedAt, moved.reason], [to, 7, 'after']);
        } else assert.throws(() => advance(inState(from), to, 7), /cannot become/, `${from} → ${to}`);
      }
      assert.equal(isEnded(inState(from)), edges[from].length === 0);
    }
  });
  it('leave behind what was said of the one before', () => {
    const { reason, waitUntil } = advance(inState('blocked'), 'pending', 7);
    assert.deepEqual([reason, waitUntil], [undefined, 3]);
    assert.equal(advance(inState('pending'), 'complete', 7).waitUntil, undefined);
  });
  it('are linked from the one that is superseded to the one that does it', () => {
    const newer = inState('pending');
    const { state, nextId } = supersede(inState('blocked'), newer, 7);
    assert.deepEqual([state, nextId], ['cancelled', newer.id]);
  });
});

test('what could not be carried out fails, and is tried again in one to five minutes while its workload exists', () => {
  const evaluation = makeEvaluation('web', 'workload', context, { priority: 70 });
  for (const [random, waitMs] of [
    [0, 60_000],
    [0.999_999, 299_999],
  ] as const) {
    const { end, followUp } = giveUp(evaluation, 'refused too often', {
      ...context,
      random: () => random,
      hasWorkload: true,
    });
    assert.deepEqual([end.state, end.reason, end.nextId], ['failed', 'refused too often', followUp?.id]);
    assert.deepEqual([followUp?.cause, followUp?.previousId, followUp?.priority], ['follow_up', evaluation.id, 70]);
    assert.equal(followUp?.waitUntil, context.now + waitMs);
  }
  const gone = giveUp(evaluation, 'refused too often', { ...context, random: () => 0, hasWorkload: false });
  assert.deepEqual([gone.end.state, gone.end.nextId, gone.followUp], ['failed', undefined, undefined]);
});

/** Two services with jobs on h1 and h2 (api only on h1), an omni workload, and one that does not match. */
function busyCell(): ToyCell {
  const elsewhere = workloadOf({ id: 'gpu', kind: 'omni', constraints: [{ attribute: 'gpu', operator: 'exists' }] });
  const cell = new ToyCell().put(
    hostOf('h1'),
    workloadOf({ id: 'api' }),
    workloadOf({ id: 'log', kind: 'omni' }),
    elsewhere,
  );
  cell.run('api');
  cell.put(hostOf('h2'), workloadOf({ count: 2 }));
  for (const id of ['web', 'log']) cell.run(id);
  cell.step();
  return cell;
}

describe('evaluations per cause', () => {
  const settings = (more: Partial<OperatorSettings>): OperatorSettings => ({ cordoned: false, tags: {}, ...more });
  const triggered = (cell: ToyCell, change: Parameters<Triggers['of']>[0]) =>
    new Triggers(cell).of(change).map(({ workloadId, cause }) => `${workloadId} ${cause}`);
  const host = (cell: ToyCell, hostId: string): HostRecord => {
    const record = cell.hosts.get(hostId)?.value;
    assert.ok(record !== undefined);
    return record;
  };
  it('a host joins: one per omni workload that matches', () => {
    const cell = busyCell().put(hostOf('h3', { attributes: { gpu: 'yes' } }));
    assert.deepEqual(triggered(cell, { kind: 'host', hostId: 'h3', before: undefined, after: host(cell, 'h3') }), [
      'log host_joined',
      'gpu host_joined',
    ]);
  });
  it('a host changes: one per workload on it, and one per omni workload that matches', () => {
    const cell = busyCell();
    const before = host(cell, 'h1');
    cell.put(hostOf('h1', { attributes: { gpu: 'yes' } }));
    const expected = ['api host_changed', 'log host_changed', 'web host_changed', 'gpu host_changed'];
    assert.deepEqual(triggered(cell, { kind: 'host', hostId: 'h1', before, after: host(cell, 'h1') }), expected);
    assert.deepEqual(
      triggered(cell, { kind: 'host', hostId: 'h1', before, after: { ...before, startedAt: 9 } }),
      [],
      'nothing that matters has changed',
    );
    assert.deepEqual(
      triggered(cell, { kind: 'host', hostId: 'h1', before, after: undefined }),
      [],
      'whether it is lost is judged later',
    );
  });
  it('a drain: one per workload on the host', () => {
    const cell = busyCell();
    const after = settings({ cordoned: true, drain: { startedAt: 0, maxParallel: 1 } });
    cell.settings.set('h2', after);
    assert.deepEqual(triggered(cell, { kind: 'settings', hostId: 'h2', before: undefined, after }), [
      'log drain',
      'web drain',
    ]);
  });
  it('a host is lost: one per workload on it', () => {
    const cell = busyCell();
    cell.lose('h1');
    const causes = new Triggers(cell).ofLoss('h1').map(({ workloadId, cause }) => `${workloadId} ${cause}`);
    assert.deepEqual(causes, ['api host_lost', 'log host_lost', 'web host_lost']);
  });
  it('a status: only while its workload is updated or moves, and looks at all its jobs once', () => {
    const cell = busyCell();
    const [job] = cell.jobsOf('web');
    assert.ok(job !== undefined);
    const facts = { isFinal: false, createdAt: 0, version: 'v1' };
    const runs = {
      kind: 'status' as const,
      hostId: job.hostId,
      jobId: job.id,
      workloadId: 'web',
      before: { ...facts, state: 'starting' as const },
      after: { ...facts, state: 'running' as const },
    };
    const triggers = new Triggers(cell);
    assert.deepEqual(triggers.of(runs), []);
    const looks = mock.method(cell, 'jobsOf');
    assert.deepEqual(triggers.of(runs), []);
    assert.equal(looks.mock.callCount(), 0);
    cell.put(workloadOf({ count: 2, version: 'v2' }));
    assert.deepEqual(triggers.of(runs), [{ workloadId: 'web', cause: 'health' }]);
    assert.deepEqual(
      triggers.of({ ...runs, after: { ...facts, state: 'stopping', isFinal: false }, before: undefined }),
      [],
    );
  });
  it('the last other job of a draining host ends: one per omni workload there', () => {
    const cell = busyCell();
    cell.settings.set('h2', settings({ drain: { startedAt: 0, maxParallel: 1 } }));
    const job = cell.jobsOf('web').find(({ hostId }) => hostId === 'h2');
    assert.ok(job !== undefined);
    cell.report(job.id, 'done');
    const after = cell.jobs.get(job.id)?.status;
    assert.deepEqual(
      triggered(cell, { kind: 'status', hostId: 'h2', jobId: job.id, workloadId: 'web', before: job.status, after }),
      ['log drain'],
    );
  });
  it('what makes room: a claim that shrinks, a host that opens, a stopped job that ends', () => {
    const cell = busyCell();
    const claim = { memoryBytes: 5, cpuMillis: 1, planId: 'p', jobs: 1, ports: {} };
    const kindOf = (change: Parameters<typeof reliefOf>[0]) => reliefOf(change, cell)?.kind;
    assert.equal(kindOf({ kind: 'claim', hostId: 'h1', before: claim, after: { ...claim, memoryBytes: 4 } }), 'freed');
    assert.equal(
      kindOf({ kind: 'claim', hostId: 'h1', before: claim, after: { ...claim, memoryBytes: 6 } }),
      undefined,
    );
    assert.equal(kindOf({ kind: 'claim', hostId: 'gone', before: claim, after: undefined }), undefined);
    assert.equal(kindOf({ kind: 'host', hostId: 'h1', before: undefined, after: host(cell, 'h1') }), 'opened');
    assert.equal(
      kindOf({ kind: 'settings', hostId: 'h1', before: settings({ cordoned: true }), after: undefined }),
      'opened',
    );
    const status = { state: 'done' as const, isFinal: true, createdAt: 0, version: 'v1' };
    assert.equal(
      kindOf({ kind: 'status', hostId: 'h1', jobId: 'j', workloadId: 'web', before: undefined, after: status }),
      'ended',
    );
    cell.settings.set('h1', settings({ cordoned: true }));
    assert.equal(
      kindOf({ kind: 'claim', hostId: 'h1', before: claim, after: undefined }),
      undefined,
      'a closed host helps nobody',
    );
  });
});
