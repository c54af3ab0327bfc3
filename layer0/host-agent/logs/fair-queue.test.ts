import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { FairQueue } from './fair-queue.ts';

type Value = { lane: string; at: number };

const queueOf = (limit: number) => new FairQueue<Value>({ limit, sizeOf: () => 1 });

test('lanes take turns, so that what comes last into a quiet one is among the next that are taken', () => {
  const queue = queueOf(100_000);
  for (let at = 0; at < 50_000; at += 1) queue.push('flood', { lane: 'flood', at });
  queue.push('quiet', { lane: 'quiet', at: 0 });
  assert.deepEqual(
    queue.take(3).map(({ lane }) => lane),
    ['flood', 'quiet', 'flood'],
  );
});

test('a lane that is full asks who fills it to wait, and leaves the others their room', () => {
  const queue = queueOf(1_000);
  let at = 0;
  for (const lane of ['a', 'b', 'c', 'd']) while (queue.hasRoom(lane)) queue.push(lane, { lane, at: (at += 1) });
  assert.ok(queue.size <= 600, `${queue.size}`);
  assert.equal(queue.hasRoom('a'), false);
  assert.equal(queue.hasRoom('quiet'), true);
});

test('values of a lane come in their order, each once, unless they had to go, which is told', () => {
  const step = fc.record({ lane: fc.constantFrom('a', 'b', 'c'), push: fc.nat(40), take: fc.nat(20) });
  fc.assert(
    fc.property(fc.array(step), fc.integer({ min: 1, max: 60 }), (steps, limit) => {
      const queue = queueOf(limit);
      const next = new Map<string, number>();
      const pushed = new Map<string, number>();
      const told = (values: readonly Value[], isDrop: boolean) => {
        for (const { lane, at } of values) {
          assert.equal(at, next.get(lane) ?? 0, isDrop ? 'the oldest goes' : 'in order');
          next.set(lane, at + 1);
        }
      };
      for (const { lane, push, take } of steps) {
        for (let count = 0; count < push; count += 1) {
          const at = pushed.get(lane) ?? 0;
          pushed.set(lane, at + 1);
          told(queue.push(lane, { lane, at }), true);
          assert.ok(queue.size <= limit + 3 * 16);
        }
        told(queue.take(take), false);
      }
      told(queue.take(Infinity), false);
      assert.deepEqual(next, new Map([...pushed].filter(([, count]) => count > 0)));
      assert.equal(queue.size, 0);
    }),
  );
});
