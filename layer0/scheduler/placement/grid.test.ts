import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Grid, gridLevels, levelOf, misfitOf, scaleFor } from './grid.ts';

test('levels go up with amounts, half an octave each, and the scale is on the topmost', () => {
  const scale = scaleFor(60_000);
  assert.equal(scale, 65_536);
  assert.deepEqual(
    [65_536, 65_535, 49_152, 49_151, 32_768, 24_576, 1, 0, -5].map((n) => levelOf(n, scale)),
    [31, 30, 30, 29, 29, 28, 0, 0, 0],
  );
  fc.assert(
    fc.property(
      fc.nat(65_536),
      fc.nat(65_536),
      (a, b) => levelOf(Math.min(a, b), scale) <= levelOf(Math.max(a, b), scale),
    ),
  );
});

test('walking the cells from one on visits every cell above it that holds a host, the least misfit first', () => {
  const cells = fc.uniqueArray(fc.nat(gridLevels * gridLevels - 1), { maxLength: 80 });
  fc.assert(
    fc.property(cells, fc.nat(31), fc.nat(31), (held, cpu, memory) => {
      const levels = { cpu, memory };
      const grid = new Grid();
      for (const [host, cell] of held.entries()) grid.add(cell, host);
      const visited: number[] = [];
      for (let cell = grid.nextCell(levels, 0); cell >= 0;) {
        visited.push(cell);
        cell = grid.nextCell(levels, misfitOf(cell, levels) + 1);
      }
      const more = (cell: number): [cpu: number, memory: number] => [(cell >> 5) - cpu, (cell & 31) - memory];
      const expected = held
        .filter((cell) => Math.min(...more(cell)) >= 0)
        .toSorted(
          (a, b) => Math.max(...more(a)) - Math.max(...more(b)) || Math.min(...more(a)) - Math.min(...more(b)) || a - b,
        );
      assert.deepEqual(visited, expected);
    }),
  );
});

test('a host that leaves a cell gives its position to the last one', () => {
  const grid = new Grid();
  assert.deepEqual(
    [5, 6, 7].map((host) => grid.add(40, host)),
    [0, 1, 2],
  );
  assert.equal(grid.remove(40, 0), 7);
  assert.equal(grid.remove(40, 1), -1);
  assert.deepEqual(grid.cells[40], [7]);
  assert.equal(grid.remove(40, 0), -1);
  assert.equal(grid.size, 0);
  assert.equal(grid.nextCell({ cpu: 0, memory: 0 }, 0), -1);
});
