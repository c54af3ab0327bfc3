import assert from 'node:assert/strict';
import { test } from 'node:test';
import { busyMs, busyMsOf, heldUp, isBlockedBy, processorMsOf, waitedMsOf } from './busy-time.ts';

test('a process is busy while it runs or waits to, and not while it rests', async () => {
  const before = busyMs(process.pid) ?? 0;
  // By the processor's time: others may have it for all of 300 ms by the clock.
  const atFirst = process.threadCpuUsage();
  const usedMs = ({ user, system }: NodeJS.CpuUsage) => (user + system) / 1_000;
  while (usedMs(process.threadCpuUsage(atFirst)) < 300);
  const after = busyMs(process.pid) ?? 0;
  assert.ok(after - before > 200, `${after - before} ms`);
  assert.equal(busyMs(2 ** 22 + 1), undefined);
});

test('it is read as the kernel writes it, whatever the program is called', () => {
  assert.equal(busyMsOf('1500000000 250000000 77\n'), 1_750);
  assert.equal(processorMsOf('7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 123 45 0 0 20 0 11 0 100 1 2'), 1_680);
  assert.equal(waitedMsOf('1500000000 250000000 77\n'), 250);
  assert.equal(isBlockedBy('7 (a) b (c) S 1 7 7'), false);
  assert.equal(isBlockedBy('7 (a) S (c) D 1 7 7'), true);
});

test('nothing holds up who runs, nor who has ended', () => {
  assert.equal(heldUp(process.pid).isBlocked, false);
  assert.deepEqual(heldUp(2 ** 22 + 1), { waitedMs: 0, isBlocked: false });
});
