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

type Counted = Readonly<Record<string, undefined | number | { ended: number; failed?: number; active?: number }>>;

/** A meter that is asked every ten seconds; `null`: no router answered. */
function requestsOf(looks: readonly (Counted | null)[], isWhole: (index: number) => boolean = () => true) {
  const meter = new RequestMeter();
  for (const [index, counted] of looks.entries()) {
    const atMs = index * 10_000;
    if (counted === null) {
      meter.miss(atMs);
      continue;
    }
    const counts = Object.entries(counted).flatMap(([key, one]) => {
      if (one === undefined) return [];
      const given = typeof one === 'number' ? { ended: one } : one;
      return [[key, { failed: 0, active: 3, ...given }] as const];
    });
    meter.note(atMs, new Map(counts), { keepMs: windowMs, isWhole: isWhole(index) });
  }
  const nowMs = (looks.length - 1) * 10_000;
  return { perSecond: meter.perSecond(nowMs, windowMs), inFlight: meter.inFlight(nowMs, windowMs) };
}

const every = (looks: number, of: (index: number) => Counted | null) =>
  Array.from({ length: looks }, (_, at) => of(at));

test('requests are counted over all routers once half a window was seen', () => {
  const looks = every(4, (at) => ({ 'a r 0': 1_000_000 + 100 * at, 'b r 0': 500 + 200 * at }));
  assert.equal(requestsOf(looks.slice(0, 3)).perSecond, undefined);
  assert.deepEqual(requestsOf(looks).perSecond, { value: 30, isWhole: true });
  assert.deepEqual(requestsOf(looks).inFlight, { value: 6, isWhole: true });
  assert.equal(new RequestMeter().inFlight(0, windowMs), undefined);
});

test('what cannot be compared counts as nothing, never as all that was ever counted, and there may have been more', () => {
  const old = 9_000_000;
  for (const [what, looks] of [
    ['a route is removed', every(6, (at) => ({ 'a r 0': 100 * at, ...(at < 3 ? { 'a old 0': old } : {}) }))],
    ['a route comes to lead here', every(6, (at) => ({ 'a r 0': 100 * at, ...(at < 3 ? {} : { 'a old 0': old }) }))],
    ['a worker died with what it had counted', every(6, (at) => ({ 'a r 0': (at < 3 ? old : old / 2) + 100 * at }))],
    ['a router was started anew', every(6, (at) => (at < 3 ? { 'a r 0': old + 100 * at } : { 'a r 7': 100 * at }))],
    ['two are at one address', every(6, (at) => (at % 2 === 0 ? { 'a r 0': old + 100 * at } : { 'a r 7': 100 * at }))],
    ['one was silent', every(6, (at) => ({ 'a r 0': 100 * at, ...(at === 2 ? {} : { 'b r 0': (old / 6) * at }) }))],
    ['all were silent', every(6, (at) => (at === 2 || at === 3 ? null : { 'a r 0': (old / 6) * at }))],
  ] as const) {
    const { perSecond } = requestsOf(looks);
    assert.equal(perSecond?.isWhole, false, what);
    const most = what.endsWith('silent') ? old / 60 + 10 : 10;
    assert.ok(perSecond.value <= most, `${what}: ${perSecond.value}`);
  }
});

test('an average is whole again once no look of its window was in part', () => {
  const looks = every(12, (at) => ({ 'a r 0': 100 * at }));
  const partly = (part: number) => requestsOf(looks, (at) => at !== part).perSecond?.isWhole;
  assert.deepEqual([partly(11), partly(6), partly(5)], [false, false, true]);
  assert.equal(requestsOf([null, ...looks.slice(0, 7)]).perSecond?.isWhole, true, 'what was before it is of no matter');
});

test('where many requests fail nobody knows how many there would be', () => {
  const failing = (share: number) =>
    requestsOf(every(12, (at) => ({ 'a r 0': { ended: 1_000 * at, failed: at < 8 ? 0 : 1_000 * share * at } })));
  assert.deepEqual(failing(0.5).perSecond, { value: 100, isWhole: false });
  const few = requestsOf(every(12, (at) => ({ 'a r 0': { ended: 1_000 * at, failed: 10 * at } })));
  assert.deepEqual(few.perSecond, { value: 100, isWhole: true }, 'one in a hundred fails anywhere');
  const away = requestsOf(every(12, (at) => ({ 'a r 0': { ended: 100, failed: 10 * at } })));
  assert.deepEqual(away.perSecond, { value: 0, isWhole: false }, 'maintenance');
});

test('what is under way is averaged over the window', () => {
  const looks = every(13, (at) => ({
    'a r 0': { ended: 0, active: at < 6 ? 0 : 5 },
    'b r 0': { ended: 0, active: at < 6 ? 0 : 5 },
  }));
  assert.deepEqual(requestsOf(looks).inFlight, { value: 10, isWhole: true });
});

test('a long window has no more readings than a short one, and says the same', () => {
  const hourMs = 3_600_000;
  const [cpu, requests] = [new CpuMeter(), new RequestMeter()];
  for (let atMs = 0; atMs <= 2 * hourMs; atMs += 10_000) {
    cpu.note('a', atMs, atMs / 2_000, hourMs);
    const counts = new Map([['a r 0', { ended: atMs / 100, failed: 0, active: 4 }]]);
    requests.note(atMs, counts, { keepMs: hourMs, isWhole: true });
  }
  const nowMs = 2 * hourMs;
  assert.equal(cpu.use(['a'], { nowMs, windowMs: hourMs, staleMs }).cores, 0.5);
  assert.deepEqual(requests.perSecond(nowMs, hourMs), { value: 10, isWhole: true });
  assert.deepEqual(requests.inFlight(nowMs, hourMs), { value: 4, isWhole: true });
  assert.ok(cpu.readings <= 70 && requests.readings <= 70, `${cpu.readings} and ${requests.readings}`);
});
