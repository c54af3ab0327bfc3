import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProcessorUse } from './processor-use.ts';

test('it is the share of all processors since it was asked before, and for less than a second the last one', () => {
  const machine = { nowMs: 0, busySeconds: 50 };
  const use = new ProcessorUse({
    now: () => machine.nowMs,
    read: () => ({ busyNanoseconds: machine.busySeconds * 1e9, cores: 2 }),
  });
  const after = (ms: number, busySeconds: number) => {
    machine.nowMs += ms;
    machine.busySeconds += busySeconds;
    return use.percent();
  };
  assert.equal(after(900, 1), undefined);
  assert.equal(after(9_100, 4), 25);
  assert.equal(after(500, 1), 25);
  assert.equal(after(9_500, 0), 5);
  assert.equal(after(10_000, 90), 100);
  assert.equal(after(10_000, -5), 0);
});

test('of this machine it is a share, too', () => {
  const start = performance.now();
  const use = new ProcessorUse({ now: () => start + 10_000 });
  assert.equal(use.percent(), undefined);
  let nowMs = start;
  const later = new ProcessorUse({ now: () => (nowMs += 60_000) });
  const percent = later.percent() ?? -1;
  assert.ok(percent >= 0 && percent <= 100, String(percent));
});
