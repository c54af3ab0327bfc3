/** What jobs and routers counted, as averages over a window: after restarts, gaps, and with jobs that come to help. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CpuMeter, RequestMeter } from './meters.ts';
import type { RouteCount, RouteCounts } from './meters.ts';

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

/** By `ROUTER ROUTE SINCE`; without a route, a router that has nothing. */
function countsOf(counted: Counted): RouteCounts {
  const routers = new Map<string, Map<string, RouteCount>>();
  for (const [key, one] of Object.entries(counted)) {
    const [router = '', route, since] = key.split(' ');
    const routes = routers.get(router) ?? new Map<string, RouteCount>();
    routers.set(router, routes);
    if (one === undefined || route === undefined) continue;
    const given = typeof one === 'number' ? { ended: one } : one;
    routes.set(route, { failed: 0, active: 3, sinceMs: Number(since), ...given });
  }
  return routers;
}

/** A meter that is asked every ten seconds; `null`: no router answered. */
function requestsOf(looks: readonly (Counted | null)[], isWhole: (index: number) => boolean = () => true) {
  const meter = new RequestMeter();
  for (const [index, counted] of looks.entries()) {
    const atMs = index * 10_000;
    if (counted === null) {
      meter.miss(atMs);
      continue;
    }
    meter.note(atMs, countsOf(counted), { keepMs: windowMs, isWhole: isWhole(index) });
  }
  const nowMs = (looks.length - 1) * 10_000;
  return { perSecond: meter.perSecond(nowMs, windowMs), inFlight: meter.inFlight(nowMs, windowMs) };
}

const every = (looks: number, of: (index: number) => Counted | null) =>
  Array.from({ length: looks }, (_, at) => of(at));

test('requests are counted over all routers once half a window was seen', () => {
  const looks = every(4, (at) => ({ 'a r 0': 1_000_000 + 100 * at, 'b r 0': 500 + 200 * at }));
  assert.equal(requestsOf(looks.slice(0, 3)).perSecond, undefined);
  assert.deepEqual(requestsOf(looks).perSecond, { value: 30, most: 30, doubt: undefined });
  assert.deepEqual(requestsOf(looks).inFlight, { value: 6, most: 6, doubt: undefined });
  assert.equal(new RequestMeter().inFlight(0, windowMs), undefined);
});

test('what cannot be compared counts as nothing, never as all that was ever counted, and there may have been more', () => {
  const old = 9_000_000;
  for (const [what, looks] of [
    ['a route is removed', every(6, (at) => ({ 'a r 0': 100 * at, ...(at < 3 ? { 'a old 0': old } : {}) }))],
    ['a worker died with what it had counted', every(6, (at) => ({ 'a r 0': (at < 3 ? old : old / 2) + 100 * at }))],
    ['the first worker died', every(6, (at) => (at < 3 ? { 'a r 0': 100 * at } : { 'a r 7': 100 * at }))],
    ['a router comes', every(6, (at) => ({ 'a r 0': 100 * at, ...(at < 3 ? {} : { 'b r 7': old }) }))],
    ['a router was started anew', every(6, (at) => (at < 3 ? { 'a r 0': old + 100 * at } : { 'a r 7': 100 * at }))],
    ['two are at one address', every(6, (at) => (at % 2 === 0 ? { 'a r 0': old + 100 * at } : { 'a r 7': 100 * at }))],
    ['one was silent', every(6, (at) => ({ 'a r 0': 100 * at, ...(at === 2 ? {} : { 'b r 0': (old / 6) * at }) }))],
    ['all were silent', every(6, (at) => (at === 2 || at === 3 ? null : { 'a r 0': (old / 6) * at }))],
  ] as const) {
    const { perSecond } = requestsOf(looks);
    assert.equal(perSecond?.doubt, 'part', what);
    const most = what.endsWith('silent') ? old / 60 + 10 : 10;
    assert.ok(perSecond.value <= most, `${what}: ${perSecond.value}`);
  }
});

test('what a router counts of a route for the first time is the most there can have been, and for the least nothing', () => {
  const first = every(7, (at) => ({
    'a r 5': 100 * at,
    'a q 5': at < 4 ? undefined : 30,
    ...(at < 5 ? { b: undefined } : { 'b r 5': 90 }),
  }));
  assert.deepEqual(requestsOf(first).perSecond, { value: 10, most: 12, doubt: undefined });
  const led = every(7, (at) => ({ 'a r 0': 100 * at, ...(at < 3 ? {} : { 'a old 0': 60_000 }) }));
  assert.deepEqual(requestsOf(led).perSecond, { value: 10, most: 1_010, doubt: undefined }, 'it came to lead here');
  const older = every(7, (at) => (at < 3 ? { 'a r 5': 100 * at } : { 'a r 2': 100 * at }));
  assert.deepEqual(
    requestsOf(older).perSecond,
    { value: 500 / 60, most: 10, doubt: undefined },
    'an older process has its first',
  );
  const restarted = every(14, (at) =>
    at < 3 ? { 'a r 0': 100 * at, 'a q 0': 9 } : { 'a r 7': 100 * at, 'a q 7': at < 12 ? undefined : 1 },
  );
  assert.equal(requestsOf(restarted).perSecond?.doubt, undefined, 'of many routes each has its first request some day');
});

test('an average is whole again once no look of its window was in part', () => {
  const looks = every(12, (at) => ({ 'a r 0': 100 * at }));
  const partly = (part: number) => requestsOf(looks, (at) => at !== part).perSecond?.doubt;
  assert.deepEqual([partly(11), partly(6), partly(5)], ['part', 'part', undefined]);
  assert.equal(
    requestsOf([null, ...looks.slice(0, 7)]).perSecond?.doubt,
    undefined,
    'what was before it is of no matter',
  );
});

test('where many requests fail nobody knows how many there would be', () => {
  const failing = (share: number) =>
    requestsOf(every(12, (at) => ({ 'a r 0': { ended: 1_000 * at, failed: at < 8 ? 0 : 1_000 * share * at } })));
  assert.deepEqual(failing(0.5).perSecond, { value: 100, most: 100, doubt: 'failures' });
  const few = requestsOf(every(12, (at) => ({ 'a r 0': { ended: 1_000 * at, failed: 10 * at } })));
  assert.deepEqual(few.perSecond, { value: 100, most: 100, doubt: undefined }, 'one in a hundred fails anywhere');
  const away = requestsOf(every(12, (at) => ({ 'a r 0': { ended: 100, failed: 10 * at } })));
  assert.deepEqual(away.perSecond, { value: 0, most: 0, doubt: 'failures' }, 'maintenance');
});

test('one failed request now and then is no sign of an outage, however few there are', () => {
  const failing = (share: number) =>
    requestsOf(every(13, (at) => ({ 'a r 0': { ended: 5 * at, failed: Math.floor(share * at) } }))).perSecond?.doubt;
  assert.deepEqual([failing(1 / 3), failing(1)], [undefined, 'failures']);
  const once = every(13, (at) => ({ 'a r 0': { ended: 20 * at, failed: at < 9 ? 0 : 5 } }));
  assert.equal(requestsOf(once).perSecond?.doubt, undefined, 'a quarter of one look, a few of the window');
  const rare = every(13, (at) => ({ 'a r 0': { ended: Math.floor(at / 6), failed: Math.floor(at / 6) } }));
  assert.equal(requestsOf(rare).perSecond?.doubt, undefined);
});

test('what is under way is averaged over the window', () => {
  const looks = every(13, (at) => ({
    'a r 0': { ended: 0, active: at < 6 ? 0 : 5 },
    'b r 0': { ended: 0, active: at < 6 ? 0 : 5 },
  }));
  assert.deepEqual(requestsOf(looks).inFlight, { value: 10, most: 10, doubt: undefined });
});

test('a long window has no more readings than a short one, and says the same', () => {
  const hourMs = 3_600_000;
  const [cpu, requests] = [new CpuMeter(), new RequestMeter()];
  for (let atMs = 0; atMs <= 2 * hourMs; atMs += 10_000) {
    cpu.note('a', atMs, atMs / 2_000, hourMs);
    const counts = countsOf({ 'a r 0': { ended: atMs / 100, active: 4 } });
    requests.note(atMs, counts, { keepMs: hourMs, isWhole: true });
  }
  const nowMs = 2 * hourMs;
  assert.equal(cpu.use(['a'], { nowMs, windowMs: hourMs, staleMs }).cores, 0.5);
  assert.deepEqual(requests.perSecond(nowMs, hourMs), { value: 10, most: 10, doubt: undefined });
  assert.deepEqual(requests.inFlight(nowMs, hourMs), { value: 4, most: 4, doubt: undefined });
  assert.ok(cpu.readings <= 70 && requests.readings <= 70, `${cpu.readings} and ${requests.readings}`);
});
