import assert from 'node:assert/strict';
import { test } from 'node:test';
import { latencyBoundsMs } from '../routes/latency.ts';
import type { AppStats, RouterCounts } from '../routes/app-stats.ts';
import { RequestRates } from './requests.ts';

const quick = latencyBoundsMs.indexOf(10);

function counted(requests: number, more: Partial<AppStats> = {}): AppStats {
  const latency = Array.from({ length: latencyBoundsMs.length + 1 }, (_, index) => (index === quick ? requests : 0));
  return { appId: 'a', routes: 1, sinceMs: 0, requests, active: 2, clientErrors: 0, serverErrors: 0, latency, ...more };
}

const told = (atMs: number, apps: AppStats[], instance = 'one'): RouterCounts => ({ instance, atMs, apps });

/** At looks ten seconds apart: of each router what it counted, or that it did not answer. */
function looks(
  all: readonly Readonly<Record<string, AppStats[] | RouterCounts | 'silent'>>[],
  appId = 'a',
): (number | undefined)[] {
  const rates = new RequestRates();
  return all.map((routers, index) => {
    const answered = Object.entries(routers).flatMap(([address, one]) =>
      one === 'silent' ? [] : [[address, Array.isArray(one) ? told(index * 10_000, one) : one] as const],
    );
    const silent = Object.keys(routers).filter((address) => routers[address] === 'silent');
    const { rows, others } = rates.note(new Map(answered), silent);
    return (rows.get(appId) ?? others).perSecond;
  });
}

const nan = Number.NaN;

test('what all routers counted since the look before is told for each second, and nothing after the first look', () => {
  const at = (one: number, two: number) => ({ r1: [counted(one)], r2: [counted(two)] });
  assert.deepEqual(looks([at(100, 50), at(120, 80), at(120, 80)]), [nan, 5, 0]);
});

test('an app without a request has none, once there was a look before', () => {
  assert.deepEqual(looks([{ r1: [] }, { r1: [] }, { r1: [counted(30)] }]), [nan, 0, 3]);
});

test('while a router does not answer nothing is known, and then it is over all the time that passed', () => {
  const silent = { r1: 'silent' as const, r2: [counted(20)] };
  assert.deepEqual(looks([{ r1: [counted(0)], r2: [counted(0)] }, silent, { r1: [counted(40)], r2: [counted(40)] }]), [
    nan,
    nan,
    2 + 2,
  ]);
  assert.deepEqual(looks([{ r1: [counted(0)] }, {}]), [nan, nan]);
});

test('a router that came, left or began anew, and a route that went, make a gap and no wrong number', () => {
  const gap = (first: AppStats, second: AppStats) => looks([{ r1: [first] }, { r1: [second] }])[1];
  assert.equal(gap(counted(100), counted(90)), nan);
  assert.equal(gap(counted(100), counted(120, { sinceMs: 5 })), nan);
  assert.equal(gap(counted(100, { routes: 2 }), counted(120)), nan);
  assert.equal(gap(counted(100, { routes: 1 }), counted(120, { routes: 2 })), 2);
  assert.deepEqual(looks([{ r1: [counted(5)] }, { r1: [] }]), [nan, nan]);
  assert.deepEqual(looks([{ r1: [counted(5)] }, { r1: [counted(5)], r2: [counted(9)] }]), [nan, nan]);
  assert.deepEqual(looks([{ r1: [counted(5)], r2: [counted(5)] }, { r1: [counted(5)] }]), [nan, nan]);
});

test('of two that share an address while one is replaced, what the other counted is in no sum', () => {
  const [older, newer] = [counted(1_000_000), counted(70, { sinceMs: 5 })];
  const at = (index: number, apps: AppStats[], instance: string) => ({ r: told(index * 10_000, apps, instance) });
  assert.deepEqual(looks([at(0, [newer], 'new'), at(1, [older], 'old'), at(2, [counted(1_000_050)], 'old')]), [
    nan,
    nan,
    5,
  ]);
  assert.deepEqual(looks([at(0, [], 'new'), at(1, [older], 'old')]), [nan, nan]);
  assert.deepEqual(looks([at(0, [older], 'old'), at(1, [newer], 'new')], 'b'), [nan, nan]);
});

test('each router is reckoned with the time that it says it counted at, however late another one answers', () => {
  const at = (oneMs: number, one: number, otherMs: number, other: number) => ({
    r1: told(oneMs, [counted(one)]),
    r2: told(otherMs, [counted(other)], 'two'),
  });
  const silent = { r1: told(15_000, [counted(1_500)]), r2: 'silent' as const };
  assert.deepEqual(looks([at(0, 0, 70_000, 0), silent, at(30_000, 3_000, 100_000, 3_000)]), [nan, nan, 200]);
  assert.deepEqual(looks([at(0, 0, 70_000, 0), at(15_000, 1_500, 89_000, 1_900)]), [nan, 200]);
});

test('of more apps than there is room for those that were there before are kept, and the others are told as left out', () => {
  const rates = new RequestRates({ maxApps: 2 });
  const look = (atMs: number, ...ids: string[]) => {
    const apps = ids.map((appId) => counted(atMs / 1_000, { appId }));
    const { rows, leftOut } = rates.note(new Map([['r', told(atMs, apps)]]), []);
    return [...ids.map((id) => rows.get(id)?.perSecond), ...leftOut];
  };
  assert.deepEqual(look(0, 'a', 'b'), [nan, nan]);
  assert.deepEqual(look(10_000, 'c', 'a', 'b'), [nan, 1, 1, 'c']);
  assert.deepEqual(look(20_000, 'c', 'b'), [nan, 1]);
  assert.deepEqual(look(30_000, 'c', 'b'), [1, 1]);
});

test('errors, those under way and how long requests took are told with them', () => {
  const rates = new RequestRates();
  rates.note(new Map([['r', told(0, [counted(10)])]]), []);
  const next = counted(50, { clientErrors: 20, serverErrors: 10, active: 7 });
  const row = rates.note(new Map([['r', told(10_000, [next])]]), []).rows.get('a');
  assert.deepEqual([row?.clientErrorsPerSecond, row?.serverErrorsPerSecond, row?.inFlight, row?.p50Ms], [2, 1, 7, 7.5]);
  const quiet = rates.note(new Map([['r', told(20_000, [next])]]), []).rows.get('a');
  assert.deepEqual([quiet?.perSecond, quiet?.p95Ms], [0, nan]);
});
