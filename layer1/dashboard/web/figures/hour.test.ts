import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Figures } from '@flynn/controller/figures/model';
import { type Hour, hourOf, isOld, knowsMore, pointsKept, spansOf, startOf, sumOf } from './hour.ts';

const stepMs = 15_000;
const noon = Date.parse('2030-01-01T12:00:00Z');
const iso = (ms: number) => new Date(ms).toISOString();

/** Of a controller that has looked since a moment: how many jobs of web it saw, from a point on. */
function told(from: number, jobs: (number | null)[], more: Partial<Figures> = {}): Figures {
  const nulls = jobs.map(() => null);
  const web = { type: 'web', jobs, cpu: nulls, memoryBytes: nulls, memoryLimitBytes: nulls };
  const at = iso(noon + from * stepMs);
  return { from: at, stepMs, points: jobs.length, knownSince: at, isLeftOut: false, types: [web], ...more };
}

const tail = ({ types }: Hour, count: number) => types.find(({ type }) => type === 'web')?.jobs.slice(-count);

test('what was answered stands at the end of an hour, and nothing is known before', () => {
  const hour = hourOf(told(0, [1, null, 3]));
  assert.deepEqual([hour.endMs, hour.knownSinceMs, startOf(hour)], [noon + 2 * stepMs, noon, noon - 237 * stepMs]);
  assert.equal(hour.types[0]?.jobs.length, pointsKept);
  assert.deepEqual(tail(hour, 4), [null, 1, null, 3]);
});

test('the next answer goes on where the one before ended, and an empty one changes nothing', () => {
  const before = hourOf(told(0, [1, 2, 3]));
  const after = hourOf(told(3, [4, 5], { knownSince: iso(noon) }), before);
  assert.deepEqual(tail(after, 6), [null, 1, 2, 3, 4, 5]);
  const same = hourOf(told(5, [], { types: [], knownSince: iso(noon) }), after);
  assert.deepEqual([same.endMs, tail(same, 5)], [after.endMs, [1, 2, 3, 4, 5]]);
});

test('another controller, which has looked for less long or is behind, takes nothing away', () => {
  const before = hourOf(told(0, [1, 2, 3, 4]));
  const other = hourOf(told(2, [9, 8], { knownSince: iso(noon + 2 * stepMs) }), before);
  assert.deepEqual([tail(other, 4), other.knownSinceMs], [[1, 2, 9, 8], noon]);
  const behind = hourOf(told(1, [7]), before);
  assert.deepEqual([behind.endMs, tail(behind, 4)], [before.endMs, [1, 7, 3, 4]]);
});

test('of one that has looked for longer all is read, and until then no more is told as looked at than was read', () => {
  const before = hourOf(told(200, [1]));
  const since = told(201, [1], { knownSince: iso(noon) });
  assert.deepEqual([knowsMore(since, before), knowsMore(since, undefined)], [true, false]);
  assert.equal(hourOf(since, before).knownSinceMs, noon + 200 * stepMs);
  const whole = hourOf(
    told(
      0,
      Array.from({ length: 202 }, () => 2),
    ),
    before,
  );
  assert.deepEqual([whole.knownSinceMs, tail(whole, 202)?.[0]], [noon, 2]);
  assert.equal(knowsMore(told(202, [1], { knownSince: iso(noon + stepMs) }), whole), false);
});

test('an end is old once there should have been others', () => {
  const hour = hourOf(told(0, [1]));
  assert.deepEqual([isOld(hour, noon + 3 * stepMs), isOld(hour, noon + 4 * stepMs)], [false, true]);
});

test('after an hour what was answered before is gone, with types that had jobs only then', () => {
  const before = hourOf(told(0, [1]));
  const later = hourOf(told(pointsKept, [2], { types: [] }), before);
  assert.deepEqual(later.types, []);
});

test('requests that were told once stay, with gaps where they are not told', () => {
  const one = [5];
  const requests = {
    perSecond: one,
    clientErrorsPerSecond: one,
    serverErrorsPerSecond: one,
    inFlight: one,
    p50Ms: one,
    p95Ms: one,
    p99Ms: one,
  };
  const before = hourOf(told(0, [1], { requests }));
  assert.equal(hourOf(told(0, [1])).requests, undefined);
  assert.deepEqual(hourOf(told(1, [1]), before).requests?.p95Ms.slice(-3), [null, 5, null]);
});

test('columns are added up, and averaged over spans, of what is known', () => {
  const column = (...end: (number | null)[]) => [
    ...Array.from({ length: pointsKept - end.length }, () => null),
    ...end,
  ];
  const type = (name: string, jobs: (number | null)[], cpu: (number | null)[]) => {
    return { type: name, jobs: column(...jobs), cpu: column(...cpu), memoryBytes: [], memoryLimitBytes: [] };
  };
  // Of worker there was none yet, then nothing is known of it, at the last there is none any more.
  const types = [
    type('web', [1, null, 1, 1, 1], [1, null, 3, 3, 4]),
    type('worker', [null, null, 1, 1, 0], [null, null, 2, null, 0]),
  ];
  assert.deepEqual(sumOf(types, 'cpu').slice(-6), [null, 1, null, 5, null, 4]);
  const spans = spansOf(column(8, null, 4), 20, 'average');
  assert.deepEqual([spans.length, spans.slice(-2)], [12, [undefined, 6]]);
  assert.equal(spansOf(column(8, null, 4), 20, 'highest').at(-1), 8);
});
