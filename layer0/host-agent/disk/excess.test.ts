import assert from 'node:assert/strict';
import { test } from 'node:test';
import { excessOf, excessText } from './excess.ts';

const gibibyte = 2 ** 30;

test('a container has one file for each 4 KiB of its limit, no fewer than 100,000, and no more than a quarter of the disk’s', () => {
  const limitOf = (limitBytes: number, totalFiles?: number): number | undefined =>
    excessOf({ writableBytes: 0, writableFiles: 1e9, volumeBytes: 0 }, limitBytes, totalFiles)?.limit;
  assert.equal(limitOf(gibibyte), 262_144);
  assert.equal(limitOf(gibibyte / 100), 100_000);
  assert.equal(limitOf(10 * gibibyte, 2_000_000), 500_000);
  assert.equal(limitOf(10 * gibibyte, 200_000), 100_000);
});

test('who is over is told by what, and what to do', () => {
  const use = { writableBytes: 100, writableFiles: 100_000, volumeBytes: 0 };
  assert.equal(excessOf(use, 100), undefined);
  const bytes = excessOf({ ...use, writableBytes: 101 }, 100);
  const files = excessOf({ ...use, writableFiles: 100_001 }, 100);
  assert.ok(bytes !== undefined && files !== undefined);
  assert.equal(excessText(bytes), 'killed: wrote 1 MiB outside its volumes (limit 1 MiB)');
  assert.match(
    excessText(files),
    /^killed: made 100001 files and folders outside its volumes \(limit 100000, .*: remove/,
  );
});
