import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { diskOf, diskUseOf, scarcestOf } from './use.ts';

test('what is kept for root counts neither as used nor as free', () => {
  const use = diskUseOf({ bsize: 4_096, blocks: 1_000, bfree: 700, bavail: 300 });
  assert.deepEqual(use, { totalBytes: 4_096_000, usedBytes: 1_228_800, freeBytes: 1_228_800, usedPercent: 50 });
  assert.equal(diskUseOf({ bsize: 1, blocks: 1_000, bfree: 50, bavail: 0 }).usedPercent, 100);
  assert.equal(diskUseOf({ bsize: 1, blocks: 1_000, bfree: 1_000, bavail: 950 }).usedPercent, 0);
  assert.equal(diskUseOf({ bsize: 1, blocks: 0, bfree: 0, bavail: 0 }).usedPercent, 0);
});

test('it is the figure of df', async () => {
  const shown = execFileSync('df', ['--output=pcent', '/'], { encoding: 'utf8' });
  // It rounds up; others may write meanwhile.
  const df = Number(/(\d+)%/.exec(shown)?.[1]);
  const { usedPercent } = await diskOf('/');
  assert.ok(Math.abs(df - usedPercent) < 3, `df ${df} %, here ${usedPercent} %`);
});

test('a disk is as full as it is of bytes or of files, where files are limited', () => {
  const half = { bsize: 4_096, blocks: 1_000, bfree: 500, bavail: 500 };
  const short = { usedPercent: 96, totalBytes: 4_096_000, totalFiles: 1_000 };
  assert.deepEqual(scarcestOf({ ...half, files: 1_000, ffree: 40 }), short);
  assert.equal(scarcestOf({ ...half, files: 1_000, ffree: 900 }).usedPercent, 50);
  assert.deepEqual(scarcestOf({ ...half, files: 0, ffree: 0 }), { usedPercent: 50, totalBytes: 4_096_000 });
});
