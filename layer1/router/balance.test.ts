import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { pickBackend } from './balance.ts';

const backend = fc.record({ inFlight: fc.nat(50), avoidUntilMs: fc.constantFrom(0, 0, 0, 100) });
/** Below 1, as Math.random is. */
const fraction = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('picking a backend', () => {
  test('never picks the busiest while there is another, nor one already tried, nor an unreachable one if avoidable', () => {
    fc.assert(
      fc.property(
        fc.array(backend, { maxLength: 8 }),
        fc.array(fraction, { minLength: 2, maxLength: 2 }),
        fc.nat(8),
        (all, randoms, triedCount) => {
          const tried = new Set(all.slice(0, triedCount));
          let draw = 0;
          const picked = pickBackend(all, { nowMs: 50, random: () => randoms[draw++ % 2] ?? 0, tried });
          const untried = all.filter((each) => !tried.has(each));
          assert.equal(picked === undefined, untried.length === 0);
          if (picked === undefined) return;
          assert.ok(!tried.has(picked));
          const reachable = untried.filter((each) => each.avoidUntilMs <= 50);
          if (reachable.length > 0) assert.ok(reachable.includes(picked));
          const from = reachable.length > 0 ? reachable : untried;
          const others = from.filter((each) => each !== picked);
          if (others.length > 0) assert.ok(others.some((each) => each.inFlight >= picked.inFlight));
        },
      ),
    );
  });

  test('spreads requests that take equally long nearly evenly', () => {
    const backends = Array.from({ length: 10 }, () => ({ inFlight: 0, avoidUntilMs: 0 }));
    let seed = 1;
    const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
    for (let i = 0; i < 1_000; i += 1) {
      const picked = pickBackend(backends, { nowMs: 0, random });
      if (picked !== undefined) picked.inFlight += 1;
    }
    for (const { inFlight } of backends) assert.ok(inFlight >= 94 && inFlight <= 106, String(inFlight));
  });
});
