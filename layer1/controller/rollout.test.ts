import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { batchOf, firstCounts, nextStep, targetCounts } from './rollout.ts';
import type { TypeState } from './rollout.ts';

const web = (change: Partial<TypeState> = {}): TypeState => ({
  type: 'web',
  target: 2,
  original: 2,
  newWanted: 2,
  oldWanted: 2,
  newUp: 0,
  newExpected: 2,
  isInPlace: false,
  ...change,
});
const at = (types: TypeState[], nowMs = 0) => nextStep({ types, nowMs, deadlineMs: 1_000, timeoutMs: 1_000 });

test('the old release stays until everything new is up', () => {
  assert.deepEqual(at([web({ newUp: 1 })]), { do: 'wait', untilMs: 1_000 });
  assert.deepEqual(at([web({ newUp: 2 })]), { do: 'complete' });
  assert.deepEqual(at([web({ newUp: 2 }), web({ type: 'worker', newUp: 0 })]), { do: 'wait', untilMs: 1_000 });
});

test('a release without jobs is live at once', () => {
  assert.deepEqual(at([]), { do: 'complete' });
  assert.deepEqual(at([web({ target: 0, original: 3, newWanted: 0, newExpected: 0 })]), { do: 'complete' });
});

test('one crashed job fails the deployment, with the reason, even if enough others are up', () => {
  const step = at([web({ newUp: 2, failed: { id: 'h1-a', type: 'web', exitCode: 3 } })]);
  assert.equal(step.do, 'fail');
  assert.match(step.do === 'fail' ? step.error : '', /web job .* exit code 3/);
  const killed = at([web({ failed: { id: 'h1-a', type: 'web', error: 'killed: out of memory (limit 512 MiB)' } })]);
  assert.match(killed.do === 'fail' ? killed.error : '', /out of memory/);
});

test('a deployment that takes too long fails and says what is missing and why', () => {
  const step = at([web({ newUp: 1, blocked: '1 placed, 1 waiting: memory' })], 1_000);
  assert.equal(
    step.do === 'fail' ? step.error : '',
    'not everything was up within 1 s: 1 of 2 web jobs are up (1 placed, 1 waiting: memory)',
  );
});

test('what is up at the deadline is complete, not late', () => {
  assert.deepEqual(at([web({ newUp: 2 })], 5_000), { do: 'complete' });
});

test('counts: prepared ones first, then the old release’s, then one web', () => {
  const counts = (input: Parameters<typeof targetCounts>[0]) => targetCounts(input);
  assert.deepEqual(counts({ types: ['web', 'worker'], prepared: undefined, old: undefined }), { web: 1, worker: 0 });
  assert.deepEqual(counts({ types: ['web'], prepared: undefined, old: { types: ['web'], counts: { web: 0 } } }), {
    web: 0,
  });
  assert.deepEqual(
    counts({
      types: ['web', 'worker', 'clock'],
      prepared: { clock: 1 },
      old: { types: ['web', 'worker'], counts: { web: 3, worker: 2, gone: 4 } },
    }),
    { web: 3, worker: 2, clock: 1 },
  );
  assert.deepEqual(counts({ types: ['web'], prepared: undefined, old: { types: ['worker'], counts: { worker: 2 } } }), {
    web: 1,
  });
});

const shape = fc.array(fc.record({ target: fc.nat(60), original: fc.nat(60), isInPlace: fc.boolean() }), {
  maxLength: 4,
});

test('healthy jobs of a type never fall below min(original, target), and every rollout ends', () => {
  fc.assert(
    fc.property(shape, fc.infiniteStream(fc.nat(3)), (shapes, starts) => {
      let types: TypeState[] = shapes.map(({ target, original, isInPlace }, index) => ({
        type: `t${index}`,
        target,
        original,
        isInPlace,
        newWanted: 0,
        oldWanted: original,
        newUp: 0,
        newExpected: 0,
      }));
      const apply = (counts: Record<string, number>, old: Record<string, number>) => {
        types = types.map((type) => ({
          ...type,
          newWanted: counts[type.type] ?? type.newWanted,
          newExpected: counts[type.type] ?? type.newWanted,
          oldWanted: old[type.type] ?? type.oldWanted,
        }));
      };
      apply(firstCounts(types), {});
      for (let round = 0; round < 10_000; round += 1) {
        const step = at(types);
        if (step.do === 'complete') {
          assert.ok(types.every((type) => type.newUp === type.target));
          return;
        }
        if (step.do === 'scale') {
          for (const type of types)
            assert.ok((step.newCounts[type.type] ?? 0) - type.newUp <= batchOf(type.target), 'one batch at a time');
          apply(step.newCounts, step.oldCounts);
        } else {
          assert.equal(step.do, 'wait');
          types = types.map((type) => ({
            ...type,
            newUp: Math.min(type.newWanted, type.newUp + (starts.next().value ?? 0)),
          }));
        }
        for (const type of types.filter(({ isInPlace }) => !isInPlace)) {
          assert.ok(type.oldWanted + type.newUp >= Math.min(type.original, type.target), JSON.stringify(type));
        }
      }
      assert.fail('it did not end');
    }),
    { numRuns: 200 },
  );
});
