import assert from 'node:assert/strict';
import { test } from 'node:test';
import { latencyBoundsMs } from '../routes/latency.ts';
import type { AppStats } from '../routes/app-stats.ts';
import { RequestRates } from './requests.ts';

const quick = latencyBoundsMs.indexOf(10);

function counted(requests: number, more: Partial<AppStats> = {}): AppStats {
  const latency = Array.from({ length: latencyBoundsMs.length + 1 }, (_, index) => (index === quick ? requests : 0));
  return { appId: 'a', routes: 1, sinceMs: 0, requests, active: 2, clientErrors: 0, serverErrors: 0, latency, ...more };
}

/** At looks ten seconds apart: of each router what it counted, or that it did not answer. */
function looks(all: readonly Readonly<Record<string, AppStats[] | 'silent'>>[]): (number | undefined)[] {
  const rates = new RequestRates();
  return all.map((routers, index) => {
    const answered = Object.entries(routers).filter((one): one is [string, AppStats[]] => one[1] !== 'silent');
    const silent = Object.keys(routers).filter((address) => routers[address] === 'silent');
    const { rows, others } = rates.note(index * 10_000, new Map(answered), silent);
    return rows.get('a')?.perSecond ?? others.perSecond;
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

test('errors, those under way and how long requests took are told with them', () => {
  const rates = new RequestRates();
  rates.note(0, new Map([['r', [counted(10)]]]), []);
  const next = counted(50, { clientErrors: 20, serverErrors: 10, active: 7 });
  const row = rates.note(10_000, new Map([['r', [next]]]), []).rows.get('a');
  assert.deepEqual([row?.clientErrorsPerSecond, row?.serverErrorsPerSecond, row?.inFlight, row?.p50Ms], [2, 1, 7, 7.5]);
  const quiet = rates.note(20_000, new Map([['r', [next]]]), []).rows.get('a');
  assert.deepEqual([quiet?.perSecond, quiet?.p95Ms], [0, nan]);
});
