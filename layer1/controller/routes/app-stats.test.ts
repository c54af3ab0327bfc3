import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sumByApp } from './app-stats.ts';
import { latencyBoundsMs } from './latency.ts';
import type { RouteStats } from './stats.ts';

const answers = { '1xx': 0, '2xx': 5, '3xx': 0, '4xx': 2, '5xx': 1 };
const counts = Array.from({ length: latencyBoundsMs.length + 1 }, (_, index) => (index === 1 ? 8 : 0));
const route = (id: string, appId: string, sinceMs: number): RouteStats => ({
  id,
  appId,
  service: 'shop-web',
  sinceMs,
  requests: 8,
  active: 1,
  answers,
  refusals: {},
  clientsGone: 0,
  brokenOff: 0,
  retries: 0,
  bytesIn: 0,
  bytesOut: 0,
  latency: { counts, sumMs: 16 },
  backends: [],
});

test('routes of one app are one, and each app is by itself', () => {
  const [shop, blog, ...more] = sumByApp([route('r1', 'shop', 70), route('r2', 'shop', 30), route('r3', 'blog', 50)]);
  assert.deepEqual(more, []);
  const { latency, ...sum } = shop ?? assert.fail();
  const sums = { appId: 'shop', routes: 2, sinceMs: 30, requests: 16, active: 2, clientErrors: 4, serverErrors: 2 };
  assert.deepEqual(sum, sums);
  assert.equal(latency[1], 16);
  assert.deepEqual([blog?.appId, blog?.requests, blog?.latency], ['blog', 8, counts]);
  assert.deepEqual(sumByApp([]), []);
});
