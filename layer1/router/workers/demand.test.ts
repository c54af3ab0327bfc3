import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as assertProperty, double, integer, property } from 'fast-check';
import { workerRange } from './count.ts';
import { busyShare, calmMs, calmShare, demandAfter, demandOf } from './demand.ts';
import type { Demand } from './demand.ts';

const range = { least: 1, most: 3 };

/** Looks a second apart, each with the same shares for as many workers as there are. */
function after(demand: Demand, looks: readonly number[], options = range): Demand {
  let atMs = 0;
  let now = demand;
  for (const share of looks) {
    atMs += 1_000;
    now = demandAfter(now, { atMs, shares: Array.from({ length: now.count }, () => share) }, options);
  }
  return now;
}

const looks = (count: number, share: number) => Array.from({ length: count }, () => share);

test('who is busy twice in a row gets another, up to as many as may be; the only one has to be so for longer', () => {
  assert.equal(after(demandOf(2), [0.9]).count, 2);
  assert.equal(after(demandOf(2), [0.9, 0.1, 0.9]).count, 2);
  assert.equal(after(demandOf(2), [0.9, 0.9]).count, 3);
  assert.equal(after(demandOf(1), looks(5, 0.9)).count, 1);
  assert.equal(after(demandOf(1), [...looks(5, 0.9), 0.1, ...looks(5, 0.9)]).count, 1);
  assert.equal(after(demandOf(1), looks(6, 0.9)).count, 2);
  assert.equal(after(demandOf(1), looks(60, 0.9)).count, 3);
});

test('one busy worker among idle ones is enough', () => {
  const first = demandAfter(demandOf(2), { atMs: 0, shares: [0, busyShare] }, range);
  assert.equal(demandAfter(first, { atMs: 1_000, shares: [busyShare, 0] }, range).count, 3);
});

test('once it was calm for five minutes one goes, and the next after five more', () => {
  const seconds = calmMs / 1_000;
  assert.equal(after(demandOf(3), looks(seconds, 0.01)).count, 3);
  assert.equal(after(demandOf(3), looks(seconds + 1, 0.01)).count, 2);
  assert.equal(after(demandOf(3), looks(2 * seconds + 2, 0.01)).count, 1);
  assert.equal(after(demandOf(3), looks(3_000, 0.01)).count, 1);
});

test('calm begins anew after anything else', () => {
  const seconds = calmMs / 1_000;
  assert.equal(after(demandOf(2), [...looks(seconds, 0), 0.2, ...looks(seconds, 0)]).count, 2);
});

test('what two can do at a quarter each is not calm enough for one', () => {
  assert.equal(after(demandOf(2), looks(3_000, calmShare * 0.6)).count, 2);
});

test('it is within its range, changes by one, and a steady load is never answered with one more and one less in turns', () => {
  assertProperty(
    property(
      integer({ min: 1, max: 4 }),
      integer({ min: 1, max: 4 }),
      double({ min: 0, max: 4, noNaN: true }),
      (first, other, load) => {
        const range = { least: Math.min(first, other), most: Math.max(first, other) };
        let demand = demandOf(range.least);
        const counts = [demand.count];
        for (let look = 0; look < 2_000; look += 1) {
          const shares = Array.from({ length: demand.count }, () => Math.min(1, load / demand.count));
          demand = demandAfter(demand, { atMs: look * 1_000, shares }, range);
          if (demand.count !== counts.at(-1)) counts.push(demand.count);
        }
        assert.deepEqual(
          counts,
          counts.map((_, index) => range.least + index),
        );
        assert.ok(demand.count <= range.most);
      },
    ),
    { numRuns: 200 },
  );
});

test('from one worker to one for each core, as far as the memory reaches', () => {
  const mebibyte = 1_048_576;
  const open = { wanted: undefined };
  assert.deepEqual(workerRange({ ...open, cores: 2, memoryBytes: 384 * mebibyte }), { least: 1, most: 2 });
  assert.deepEqual(workerRange({ ...open, cores: 16, memoryBytes: 384 * mebibyte }), { least: 1, most: 2 });
  assert.deepEqual(workerRange({ ...open, cores: 16, memoryBytes: undefined }), { least: 1, most: 4 });
  assert.deepEqual(workerRange({ ...open, cores: 1, memoryBytes: undefined }), { least: 1, most: 1 });
  assert.deepEqual(workerRange({ ...open, cores: 4, memoryBytes: 256 * mebibyte }), { least: 1, most: 1 });
  const wanted = { least: 12, most: 12 };
  assert.deepEqual(workerRange({ wanted, cores: 2, memoryBytes: 64 * mebibyte }), wanted);
});
