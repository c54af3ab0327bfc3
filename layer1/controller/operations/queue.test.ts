import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { OperationQueue, canTake, chainOf } from './queue.ts';
import type { Taker } from './queue.ts';
import type { OperationResource } from '../resources.ts';

const any: Taker = { id: 'r1', labels: { zone: 'a', disk: 'ssd' }, isByIdOnly: false };

type Given = Partial<OperationResource['spec']> & { state?: OperationResource['status']['state']; place?: number };

function operation(id: string, { state = 'queued', place, ...spec }: Given = {}): OperationResource {
  return {
    type: 'operation',
    id,
    uid: id,
    revision: 1,
    generation: 1,
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
    labels: {},
    finalizers: [],
    waitingFor: {},
    conditions: [],
    spec: { appId: 'a', kind: 'build', pushId: 'p', input: {}, ...spec },
    status: { state, output: {}, ...(place === undefined ? {} : { place }) },
  };
}

/** A queue of them, created one after the other. */
function queueOf(...operations: OperationResource[]): OperationQueue {
  const queue = new OperationQueue();
  for (const [index, one] of operations.entries()) queue.set(one.id, one, index + 1);
  return queue;
}

function drain(queue: OperationQueue, runner: Taker): string[] {
  const ids: string[] = [];
  for (let next = queue.reserve(runner); next !== undefined; next = queue.reserve(runner)) ids.push(next.id);
  return ids;
}

test('a push is a chain: the same push has the same ids, another has others', () => {
  assert.deepEqual(chainOf('a', 'p1'), chainOf('a', 'p1'));
  assert.deepEqual(
    chainOf('a', 'p1').map(({ kind }) => kind),
    ['build', 'release', 'deploy'],
  );
  const ids = [...chainOf('a', 'p1'), ...chainOf('a', 'p2'), ...chainOf('b', 'p1')].map(({ id }) => id);
  assert.equal(new Set(ids).size, 9);
});

test('whom an operation may go to: any, by id, by labels of which all have to match', () => {
  const spec = operation('o').spec;
  const byId: Taker = { ...any, id: 'own', isByIdOnly: true };
  const cases: [OperationResource['spec']['target'], Taker, boolean][] = [
    [undefined, any, true],
    [undefined, byId, false],
    [{ runnerId: 'own' }, byId, true],
    [{ runnerId: 'own' }, any, false],
    [{ runnerId: 'r1' }, any, true],
    [{ labels: { zone: 'a' } }, any, true],
    [{ labels: { zone: 'a', disk: 'ssd' } }, any, true],
    [{ labels: { zone: 'a', disk: 'hdd' } }, any, false],
    [{ labels: { rack: '1' } }, any, false],
    [{ labels: { zone: 'a' } }, byId, false],
  ];
  for (const [target, runner, expected] of cases) {
    assert.equal(canTake(target === undefined ? spec : { ...spec, target }, runner), expected, JSON.stringify(target));
  }
});

test('oldest first, across apps and with targets in between', () => {
  const queue = queueOf(
    operation('o1', { appId: 'a', target: { runnerId: 'elsewhere' } }),
    operation('o2', { appId: 'b' }),
    operation('o3', { appId: 'a' }),
    operation('o4', { appId: 'c' }),
  );
  assert.deepEqual(drain(queue, any), ['o2', 'o3', 'o4']);
  assert.equal(queue.whyWaits('o1', [any]), 'runner elsewhere, which is not there');
});

test('of an app one at a time, and what waits says for what', () => {
  const queue = queueOf(operation('o1'), operation('o2'), operation('o3', { appId: 'b' }));
  assert.deepEqual(drain(queue, any), ['o1', 'o3']);
  queue.set('o1', operation('o1', { state: 'running' }), 1);
  assert.deepEqual(drain(queue, any), []);
  assert.equal(queue.whyWaits('o2', [any]), 'o1: operations of an app go one at a time');
  assert.equal(queue.whyWaits('o1', [any]), undefined);
  queue.set('o1', undefined, 1);
  assert.equal(queue.whyWaits('o2', [any]), 'a runner that is free');
  assert.equal(queue.whyWaits('o2', []), 'a runner: none is there');
  assert.deepEqual(drain(queue, any), ['o2']);
});

test('one waits for all it depends on, of whatever app', () => {
  const queue = queueOf(
    operation('o1', { appId: 'a' }),
    operation('o2', { appId: 'b' }),
    operation('o3', { appId: 'c', dependsOn: ['o1', 'o2', 'long gone'] }),
    operation('o4', { appId: 'c' }),
  );
  assert.equal(queue.whyWaits('o3', [any]), 'o1, o2');
  queue.set('o1', undefined, 1);
  assert.equal(queue.whyWaits('o3', [any]), 'o2');
  assert.equal(queue.whyWaits('o4', [any]), 'a runner that is free', 'what waits for others holds nobody up');
  queue.set('o2', undefined, 2);
  assert.equal(queue.whyWaits('o4', [any]), 'o3, which came first');
  assert.deepEqual(drain(queue, any), ['o3']);
});

test('one whose record cannot be read is waited for until it can be, or is gone', () => {
  const queue = queueOf(
    operation('o1', { appId: 'a' }),
    operation('o2', { appId: 'b', dependsOn: ['o1'] }),
    operation('o3', { appId: 'a', dependsOn: ['o1'] }),
    operation('o4', { appId: 'a' }),
  );
  queue.setUnreadable(new Set(['o1']));
  queue.set('o1', undefined, 1);
  assert.match(queue.whyWaits('o2', [any]) ?? '', /^o1, whose record cannot be read: flynn status/);
  assert.deepEqual(drain(queue, any), ['o4']);
  queue.set('o4', undefined, 4);
  queue.setUnreadable(new Set());
  queue.set('o1', operation('o1', { appId: 'a', state: 'running' }), 1);
  assert.equal(queue.whyWaits('o2', [any]), 'o1');
  assert.deepEqual(drain(queue, any), []);
  queue.setUnreadable(new Set(['o1', 'another']));
  queue.set('o1', undefined, 1);
  assert.deepEqual(drain(queue, any), []);
  queue.setUnreadable(new Set(['another']));
  assert.deepEqual(drain(queue, any), ['o2', 'o3']);
});

test('what the app’s deployment keeps back goes to nobody until it lets it go, and builds of the app go on', () => {
  const queue = queueOf(
    operation('o1', { kind: 'release' }),
    operation('o2', { kind: 'deploy' }),
    operation('o3', { kind: 'build' }),
    operation('o4', { appId: 'b', kind: 'release' }),
  );
  queue.keepBack('a', 'd1', ['release', 'deploy']);
  assert.equal(queue.keptBackBy('o1'), 'd1');
  assert.match(queue.whyWaits('o2', [any]) ?? '', /^deployment d1 of the app/);
  assert.deepEqual(drain(queue, any), ['o3', 'o4']);
  queue.set('o3', undefined, 3);
  queue.keepBack('a', 'd0', []);
  assert.equal(queue.reserve(any), undefined, 'that of another deployment says nothing of this one');
  queue.keepBack('a', 'd1', ['deploy']);
  assert.equal(queue.reserve(any)?.id, 'o1');
  queue.set('o1', undefined, 1);
  assert.equal(queue.reserve(any), undefined);
  queue.keepBack('a', 'd1', []);
  assert.equal(queue.keptBackBy('o2'), undefined);
  assert.equal(queue.reserve(any)?.id, 'o2');
});

test('what was let go is there for the next, in its old place; one that took a place keeps it', () => {
  const queue = queueOf(operation('o1'), operation('o2', { appId: 'b' }));
  const taken = queue.reserve(any);
  assert.equal(taken?.id, 'o1');
  if (taken !== undefined) queue.letGo(taken);
  queue.set('o3', operation('o3', { appId: 'c', place: 0 }), 9);
  assert.deepEqual(drain(queue, any), ['o3', 'o1', 'o2']);
});

type Step = { runner: number; isEnd: boolean };
const steps = fc.array(fc.record({ runner: fc.nat(3), isEnd: fc.boolean() }), { maxLength: 200 });
const given = fc.array(
  fc.record({ app: fc.nat(3), after: fc.option(fc.nat(20), { nil: undefined }), label: fc.boolean() }),
  { maxLength: 20 },
);

test('whatever runners do: one of an app at a time, after what it depends on, oldest first for each runner, and all run', () => {
  fc.assert(
    fc.property(given, steps, (inputs, order: Step[]) => {
      const operations = inputs.map(({ app, after, label }, index) =>
        operation(`o${String(index).padStart(2, '0')}`, {
          appId: `app${app}`,
          ...(after === undefined || after >= index ? {} : { dependsOn: [`o${String(after).padStart(2, '0')}`] }),
          ...(label ? { target: { labels: { odd: 'yes' } } } : {}),
        }),
      );
      const queue = queueOf(...operations);
      const runners = [0, 1, 2, 3].map((n): Taker => {
        const labels: Record<string, string> = n % 2 === 1 ? { odd: 'yes' } : {};
        return { id: `r${n}`, isByIdOnly: false, labels };
      });
      const running = new Map<string, OperationResource>();
      const done = new Set<string>();
      const canGo = (one: OperationResource): boolean =>
        !running.has(one.id) &&
        !done.has(one.id) &&
        ![...running.values()].some(({ spec }) => spec.appId === one.spec.appId) &&
        (one.spec.dependsOn ?? []).every((id) => done.has(id));
      const take = (runner: Taker): boolean => {
        const expected = operations.find((one) => canGo(one) && canTake(one.spec, runner));
        const next = queue.reserve(runner);
        assert.equal(next?.id, expected?.id);
        if (next === undefined) return false;
        const held = { ...next, status: { ...next.status, state: 'running' as const } };
        queue.set(next.id, held, operations.indexOf(next) + 1);
        running.set(next.id, held);
        return true;
      };
      const end = (): boolean => {
        const [id] = running.keys();
        if (id === undefined) return false;
        queue.set(id, undefined, 0);
        running.delete(id);
        done.add(id);
        return true;
      };
      for (const step of order) {
        const runner = runners[step.runner];
        if (step.isEnd) end();
        else if (runner !== undefined) take(runner);
      }
      const oddOne: Taker = { id: 'last', isByIdOnly: false, labels: { odd: 'yes' } };
      while (take(oddOne) || end());
      assert.equal(done.size, operations.length);
      assert.equal(queue.size, 0);
    }),
  );
});
