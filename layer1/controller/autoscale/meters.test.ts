/** What jobs and routers counted, as averages over a window: after restarts, gaps, and with jobs that come to help. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CpuMeter, RequestMeter } from './meters.ts';

const windowMs = 60_000;
const staleMs = 30_000;

test('a job is measured once it ran for half a window', () => {
  const meter = new CpuMeter();
  for (let atMs = 0; atMs <= 20_000; atMs += 10_000) meter.note('a', atMs, atMs / 2_000, windowMs);
  assert.deepEqual(meter.use(['a'], { nowMs: 20_000, windowMs, staleMs }), { measured: 0, cores: 0 });
  meter.note('a', 30_000, 15, windowMs);
  assert.deepEqual(meter.use(['a'], { nowMs: 30_000, windowMs, staleMs }), { measured: 1, cores: 0.5 });
});

test('a job that nobody heard of for a while, and one that was started anew, are not measured', () => {
  const meter = new CpuMeter();
  for (let atMs = 0; atMs <= 60_000; atMs += 10_000) {
    meter.note('a', atMs, 100 + atMs / 1_000, windowMs);
    meter.note('again', atMs, atMs < 50_000 ? 100 + atMs / 1_000 : 1, windowMs);
  }
  assert.deepEqual(meter.use(['a', 'again'], { nowMs: 60_000, windowMs, staleMs }), { measured: 1, cores: 1 });
  assert.equal(meter.use(['a'], { nowMs: 90_001, windowMs, staleMs }).measured, 0);
  meter.keepOnly(new Set(['again']));
  assert.equal(meter.use(['a'], { nowMs: 60_000, windowMs, staleMs }).measured, 0);
});

test('what one job did alone is not counted any more once others have come to help', () => {
  const meter = new CpuMeter();
  // Three processors by one job, then one by each of three.
  for (let atMs = 0; atMs <= 90_000; atMs += 10_000) {
    const alone = Math.min(atMs, 50_000) * 3;
    meter.note('a', atMs, (alone + Math.max(0, atMs - 50_000)) / 1_000, windowMs);
    for (const id of ['b', 'c']) if (atMs >= 50_000) meter.note(id, atMs, (atMs - 50_000) / 1_000, windowMs);
  }
  const { measured, cores } = meter.use(['a', 'b', 'c'], { nowMs: 90_000, windowMs, staleMs });
  assert.equal(measured, 3);
  assert.ok(Math.abs(cores - 3) < 1e-9, String(cores));
});

test('requests are counted over all routers: one that is new, one that was started anew, one that was silent', () => {
  const meter = new RequestMeter();
  const note = (atMs: number, ended: Record<string, number>) =>
    meter.note(
      atMs,
      new Map(Object.entries(ended).map(([router, count]) => [router, { ended: count, active: 3 }])),
      windowMs,
    );
  note(0, { a: 1_000_000, b: 500 });
  note(10_000, { a: 1_000_100, b: 600 });
  assert.equal(meter.perSecond(10_000, windowMs), undefined, 'half a window is not seen yet');
  note(20_000, { a: 1_000_200 });
  // It was silent: what it counted meanwhile is counted now. The other began anew, and one that is new tells of its past.
  note(30_000, { a: 100, b: 800, c: 9_000 });
  assert.equal(meter.perSecond(30_000, windowMs), (100 + 100 + 100 + 100 + 200) / 30);
  note(40_000, { a: 200, b: 900, c: 9_100 });
  assert.equal(meter.perSecond(40_000, windowMs), (600 + 300) / 40);
});

test('what is under way is averaged over the window', () => {
  const meter = new RequestMeter();
  for (let index = 0; index <= 12; index += 1) {
    const routers = new Map(['a', 'b'].map((router) => [router, { ended: 0, active: index < 6 ? 0 : 5 }] as const));
    meter.note(index * 10_000, routers, windowMs);
  }
  assert.equal(meter.inFlight(120_000, windowMs), 10);
  assert.equal(meter.perSecond(120_000, windowMs), 0);
  assert.equal(new RequestMeter().inFlight(0, windowMs), undefined);
});
