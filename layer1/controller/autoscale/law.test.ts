/** Whatever there is to do: within the range, as many jobs as it takes, and none to and fro. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { nextCount, tolerance, wantedFor, withWanted } from './law.ts';
import type { Load, Past } from './law.ts';

const everyMs = 10_000;
const downAfterMs = 300_000;

/** Looks one after the other; the count after each of them. */
function counts(
  loads: readonly (readonly Load[])[],
  { start, min = 1, max = 1_000 }: { start: number; min?: number; max?: number },
): number[] {
  let current = start;
  let past: Past = [];
  return loads.map((load, index) => {
    const now = { atMs: index * everyMs, wanted: wantedFor(current, load) };
    past = withWanted(past, now, downAfterMs);
    current = nextCount({ current, min, max, past, downAfterMs });
    return current;
  });
}

const exactly = (jobs: number): Load => ({ low: jobs, high: jobs });
const always = (load: readonly Load[], looks: number) => Array.from({ length: looks }, () => load);
const load = fc.double({ min: 0, max: 300, noNaN: true });
const anyLoad = fc.oneof(
  load.map(exactly),
  fc.tuple(load, load).map(([low, more]): Load => ({ low, high: low + more })),
  load.map((low): Load => ({ low, high: Infinity })),
);
const range = fc.tuple(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 0, max: 100 }));

test('what is wanted is the load, rounded up; within a tenth of what there is nothing is done', () => {
  for (const [current, jobs, wanted] of [
    [2, 2.19, 2],
    [2, 2.21, 3],
    [2, 1.81, 2],
    [3, 2.69, 3],
    [4, 2.69, 3],
    [4, 3, 3],
    [10, 0, 0],
    [1, 300, 300],
    // The sum of ten tenths is not quite one.
    [1, Array.from({ length: 30 }, () => 0.1).reduce((sum, one) => sum + one, 0), 3],
  ] as const) {
    assert.equal(wantedFor(current, [exactly(jobs)]), wanted, `${jobs} of ${current}`);
  }
  assert.equal(wantedFor(2, [exactly(1), exactly(5)]), 5, 'the most that any asks for');
});

test('the count is within its range whatever there is to do, and of no jobs there stay none', () => {
  fc.assert(
    fc.property(
      range,
      fc.integer({ min: 1, max: 300 }),
      fc.array(anyLoad, { minLength: 1 }),
      ([min, more], start, loads) => {
        const max = min + more;
        for (const count of counts(
          loads.map((one) => [one]),
          { start, min, max },
        ))
          assert.ok(count >= min && count <= max);
      },
    ),
  );
  assert.deepEqual(counts(always([exactly(50)], 3), { start: 0 }), [0, 0, 0]);
});

test('a load that stays has a count that stays, and it is as many as it takes', () => {
  fc.assert(
    fc.property(load, fc.integer({ min: 1, max: 300 }), (jobs, start) => {
      // Doubling takes nine looks at most, and fewer come after the span.
      const all = counts(always([exactly(jobs)], 100), { start });
      const last = all.at(-1) ?? 0;
      assert.ok(
        all.slice(40).every((count) => count === last),
        String(all),
      );
      assert.ok(jobs <= last * (1 + tolerance), `${last} are too few for ${jobs}`);
      assert.ok(last === 1 || jobs > (last - 1) * (1 - tolerance) - 1, `${last} are too many for ${jobs}`);
    }),
  );
});

test('a step up is followed at once, at most to the double or by four; a step down once it has lasted', () => {
  assert.deepEqual(counts(always([exactly(30)], 5), { start: 1 }), [5, 10, 20, 30, 30]);
  const down = counts(always([exactly(2)], 40), { start: 20 });
  assert.deepEqual(
    down.slice(0, 30),
    Array.from({ length: 30 }, () => 20),
  );
  assert.equal(down.at(30), 2);
});

test('a load that comes and goes within the span keeps what its peaks ask for', () => {
  const waves = Array.from({ length: 200 }, (_, index) => [exactly(index % 20 < 5 ? 12 : 3)]);
  assert.deepEqual([...new Set(counts(waves, { start: 12 }))], [12]);
});

test('what cannot be seen changes nothing; what is seen in part adds jobs and takes none', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 300 }), load, (start, low) => {
      const nothing: Load = { low: 0, high: Infinity };
      assert.deepEqual([...new Set(counts(always([nothing], 60), { start }))], [start]);
      for (const seen of [[{ low, high: Infinity }], [nothing, exactly(low)]]) {
        const all = counts(always(seen, 60), { start });
        assert.ok(
          all.every((count, index) => count >= (all[index - 1] ?? start)),
          String(all),
        );
        assert.ok((all.at(-1) ?? 0) * (1 + tolerance) >= low);
      }
    }),
  );
});

test('jobs that have just begun count as busy for fewer, and as idle for more', () => {
  const begun: Load = { low: 1, high: 4 };
  assert.equal(wantedFor(4, [begun]), 4);
  assert.equal(wantedFor(2, [begun]), 2);
});

test('a count outside of its range is brought into it before anything is known', () => {
  const past: Past = [];
  assert.equal(nextCount({ current: 1, min: 3, max: 5, past, downAfterMs }), 3);
  assert.equal(nextCount({ current: 9, min: 3, max: 5, past, downAfterMs }), 5);
  assert.equal(nextCount({ current: 4, min: 3, max: 5, past, downAfterMs }), 4);
});

test('what was wanted is remembered for the span and no longer', () => {
  let past: Past = [];
  for (let index = 0; index < 1_000; index += 1)
    past = withWanted(past, { atMs: index * everyMs, wanted: index }, downAfterMs);
  assert.equal(past.length, downAfterMs / everyMs + 1);
  assert.equal(past[0]?.wanted, 999 - downAfterMs / everyMs);
});

test('of a long span the peaks are remembered, and not every look', () => {
  const dayMs = 86_400_000;
  let past: Past = [];
  for (let atMs = 0; atMs <= 2 * dayMs; atMs += 2_500) {
    past = withWanted(past, { atMs, wanted: atMs === dayMs + 5_000 ? 9 : 2 }, dayMs);
    assert.ok(past.length <= 70);
    const next = nextCount({ current: 9, min: 1, max: 10, past, downAfterMs: dayMs });
    if (atMs > dayMs + 2_500) assert.equal(next, 9);
  }
  const later = withWanted(past, { atMs: 2 * dayMs + dayMs / 30, wanted: 2 }, dayMs);
  assert.equal(nextCount({ current: 9, min: 1, max: 10, past: later, downAfterMs: dayMs }), 2);
  const rising = withWanted(later, { atMs: 2 * dayMs + dayMs / 30 + 1, wanted: 3 }, dayMs);
  const falling = withWanted(rising, { atMs: 2 * dayMs + dayMs / 30 + 2, wanted: 2 }, dayMs);
  assert.equal(
    nextCount({ current: 2, min: 1, max: 10, past: falling, downAfterMs: dayMs }),
    2,
    'up goes by now alone',
  );
});
