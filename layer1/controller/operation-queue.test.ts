import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { chainOf, checkFinish, claimable, dependentsOf, expired, hasOperationEnded } from './operation-queue.ts';
import type { QueuedOperation } from './operation-queue.ts';

const push = (appId: string, pushId: string, at: number): QueuedOperation[] =>
  chainOf(appId, pushId).map((operation) =>
    Object.assign(operation, { appId, pushId, state: 'queued' as const, createdAt: new Date(at).toISOString() }),
  );
const withState = (operations: QueuedOperation[], id: string, state: QueuedOperation['state']) =>
  operations.map((operation) => (operation.id === id ? { ...operation, state } : operation));

test('a push is a chain: the same push has the same ids, another has others', () => {
  assert.deepEqual(chainOf('a', 'p1'), chainOf('a', 'p1'));
  assert.deepEqual(
    chainOf('a', 'p1').map(({ kind }) => kind),
    ['build', 'release', 'deploy'],
  );
  const ids = [...chainOf('a', 'p1'), ...chainOf('a', 'p2'), ...chainOf('b', 'p1')].map(({ id }) => id);
  assert.equal(new Set(ids).size, 9);
});

test('an operation can be claimed once the one before it is complete', () => {
  const [build, release] = chainOf('a', 'p1').map(({ id }) => id);
  let operations = push('a', 'p1', 1);
  assert.deepEqual(
    claimable(operations).map(({ id }) => id),
    [build],
  );
  operations = withState(operations, build ?? '', 'running');
  assert.deepEqual(claimable(operations), []);
  operations = withState(operations, build ?? '', 'complete');
  assert.deepEqual(
    claimable(operations).map(({ id }) => id),
    [release],
  );
  assert.deepEqual(claimable(withState(push('a', 'p1', 1), build ?? '', 'failed')), []);
});

test('pushes of one app go one after the other, of several apps side by side', () => {
  const operations = [...push('a', 'p2', 2), ...push('a', 'p1', 1), ...push('b', 'p3', 3)];
  assert.deepEqual(
    claimable(operations).map(({ appId, pushId, kind }) => [appId, pushId, kind]),
    [
      ['a', 'p1', 'build'],
      ['b', 'p3', 'build'],
    ],
  );
});

test('what depends on a failed operation is found through the whole chain', () => {
  const operations = push('a', 'p1', 1);
  assert.deepEqual(
    dependentsOf(operations, operations[0]?.id ?? '').map(({ kind }) => kind),
    ['release', 'deploy'],
  );
});

test('only its runner ends an operation, and a repeated answer is fine', () => {
  const running = { id: 'o', state: 'running' as const, runnerId: 'r1' };
  assert.equal(checkFinish(running, 'r1', { state: 'complete' }), 'end');
  assert.throws(() => checkFinish(running, 'r2', { state: 'complete' }), /run by r1, not by r2/);
  assert.equal(checkFinish({ ...running, state: 'complete' }, 'r1', { state: 'complete' }), 'already');
  assert.throws(
    () => checkFinish({ ...running, state: 'failed', error: 'the runner went silent' }, 'r1', { state: 'complete' }),
    /is failed: the runner went silent/,
  );
});

test('old operations expire as whole pushes, never one that still runs', () => {
  const operations = Array.from({ length: 10 }, (_, index) => push('a', `p${index}`, index)).flat();
  const done = operations.map((operation) => ({ ...operation, state: 'complete' as const }));
  const gone = expired(done, 6);
  assert.equal(gone.length, 24);
  assert.ok(gone.every(({ createdAt }) => createdAt < new Date(8).toISOString()));
  assert.equal(expired(operations, 0).length, 0);
});

test('whatever runners do, an app has one running operation, a chain runs in order, and all end', () => {
  const outcome = fc.constantFrom('complete' as const, 'failed' as const, 'cancelled' as const);
  fc.assert(
    fc.property(
      fc.array(fc.nat(2), { minLength: 1, maxLength: 6 }),
      fc.infiniteStream(outcome),
      fc.infiniteStream(fc.nat(5)),
      (apps, outcomes, picks) => {
        let operations = apps.flatMap((app, index) => push(`app${app}`, `p${index}`, index));
        for (let step = 0; step < 1_000; step += 1) {
          const ready = claimable(operations);
          const running = operations.filter(({ state }) => state === 'running');
          assert.equal(new Set(running.map(({ appId }) => appId)).size, running.length);
          const pick = picks.next().value ?? 0;
          const next = ready[pick % Math.max(1, ready.length)];
          if (next !== undefined && pick % 2 === 0) {
            operations = withState(operations, next.id, 'running');
            continue;
          }
          const ending = running[0];
          if (ending !== undefined) {
            const state = outcomes.next().value ?? 'complete';
            operations = withState(operations, ending.id, state);
            if (state !== 'complete')
              for (const { id } of dependentsOf(operations, ending.id))
                operations = withState(operations, id, 'cancelled');
          } else if (next !== undefined) operations = withState(operations, next.id, 'running');
          else break;
        }
        assert.ok(operations.every(({ state }) => hasOperationEnded(state)));
      },
    ),
  );
});
