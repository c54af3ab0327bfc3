import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { areasOf, pagesOf, sharesOf } from './resident.ts';

const megabyte = 2 ** 20 / 4_096;

function pages(first: number, count: number): Set<number> {
  return new Set(Array.from({ length: count }, (_, index) => first + index));
}

describe('memory that is resident', () => {
  test('pages of several processes are shared out among them, and parts add up to all pages there are', () => {
    const shares = sharesOf([
      { part: 'web', pages: pages(0, 2 * megabyte) },
      { part: 'web', pages: pages(megabyte, 2 * megabyte) },
      { part: 'worker', pages: pages(2 * megabyte, 2 * megabyte) },
    ]);
    assert.deepEqual(
      [...shares],
      [
        ['web', 2.5],
        ['worker', 1.5],
      ],
    );
  });

  test('of mappings only those count that have anything in memory', () => {
    const smaps = [
      '00400000-00600000 r-xp 00000000 fe:00 1 /usr/bin/node',
      'Size:               2048 kB',
      'Rss:                 128 kB',
      'Pss:                   1 kB',
      '7f0000000000-7f0040000000 ---p 00000000 00:00 0',
      'Rss:                   0 kB',
    ].join('\n');
    assert.deepEqual(areasOf(smaps), [{ firstPage: 0x400, count: 512 }]);
  });

  test("a process's pages are those that the kernel counts, and of one that has ended there are none", async (t) => {
    const other = spawn('sleep', ['600']);
    t.after(() => other.kill('SIGKILL'));
    await once(other, 'spawn');
    const pid = other.pid ?? 0;
    const byKernel = () => Number(/^Rss: +(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]);
    // It is still being loaded at first.
    await waitFor(() => byKernel() > 0 && Math.abs(kilobytesOf(pagesOf(pid)) - byKernel()) <= byKernel() * 0.1, {
      what: 'the same size by pages and by the kernel',
      deadlineMs: 30_000,
      intervalMs: 50,
    });
    const exited = once(other, 'exit');
    other.kill('SIGKILL');
    await exited;
    assert.equal(pagesOf(pid).size, 0);
  });
});

function kilobytesOf(found: ReadonlySet<number>): number {
  return found.size * 4;
}
