import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Concurrency, RateLimit } from './rate.ts';

describe('a limit of requests a second', () => {
  test('lets the burst through at once, then one each interval, and says how long to wait', () => {
    const limit = new RateLimit({ perSecond: 10, burst: 3 });
    assert.deepEqual(
      [0, 0, 0, 0, 50, 100, 100].map((nowMs) => Math.round(limit.take('a', nowMs))),
      [0, 0, 0, 100, 50, 0, 100],
    );
    assert.equal(limit.take('b', 0), 0, 'another client has its own');
    assert.equal(limit.take('a', 10_000), 0);
  });

  test('in no stretch of time more than the rate allows and the burst, and what waits as told is let through', () => {
    const options = fc.record({ perSecond: fc.integer({ min: 1, max: 200 }), burst: fc.integer({ min: 1, max: 20 }) });
    fc.assert(
      fc.property(options, fc.array(fc.nat(300), { maxLength: 80 }), ({ perSecond, burst }, gaps) => {
        const limit = new RateLimit({ perSecond, burst });
        const passed: number[] = [];
        let nowMs = 0;
        for (const gap of gaps) {
          nowMs += gap;
          let waitMs = limit.take('a', nowMs);
          if (waitMs > 0 && gap % 2 === 0) {
            nowMs += waitMs;
            waitMs = limit.take('a', nowMs);
            assert.equal(waitMs, 0);
          }
          if (waitMs === 0) passed.push(nowMs);
        }
        for (const [from, start] of passed.entries()) {
          for (const [to, end] of passed.entries()) {
            if (to >= from) assert.ok(to - from + 1 <= burst + ((end - start) * perSecond) / 1_000 + 0.01);
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test('remembers no more clients than it may, and forgets who was away the longest', () => {
    const limit = new RateLimit({ perSecond: 1, burst: 1, maxClients: 2 });
    assert.equal(limit.take('a', 0), 0);
    assert.equal(limit.take('b', 1_000), 0);
    assert.equal(limit.take('a', 1_000), 0);
    assert.equal(limit.take('c', 1_000), 0, 'b is forgotten');
    assert.ok(limit.take('a', 1_001) > 0);
    assert.equal(limit.take('b', 1_001), 0);
  });
});

test('a limit of requests under way counts each client and all, and what left makes room', () => {
  const limit = new Concurrency({ perClient: 2, total: 3 });
  assert.deepEqual(
    ['a', 'a', 'a', 'b', 'c'].map((client) => limit.enter(client)),
    ['entered', 'entered', 'client-full', 'entered', 'full'],
  );
  limit.leave('a');
  assert.equal(limit.enter('c'), 'entered');
  assert.equal(limit.enter('a'), 'full');
  limit.leave('c');
  limit.leave('b');
  assert.equal(limit.enter('a'), 'entered');
  assert.equal(limit.enter('a'), 'client-full');
});
