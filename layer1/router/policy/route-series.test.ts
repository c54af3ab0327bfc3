import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routeStatsSchema } from '@flynn/controller/routes/stats';
import type { RouteStats } from '@flynn/controller/routes/stats';
import { RouteSeries } from './route-series.ts';

const noAnswers = { '1xx': 0, '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0 };
const statsOf = (id: string, requests: number, more: Partial<RouteStats> = {}): RouteStats =>
  routeStatsSchema.parse({
    id,
    appId: 'a',
    service: 'web',
    sinceMs: 0,
    requests,
    active: 0,
    answers: noAnswers,
    refusals: {},
    clientsGone: 0,
    brokenOff: 0,
    retries: 0,
    bytesIn: 0,
    bytesOut: 0,
    latency: { counts: [0], sumMs: 0 },
    backends: [],
    ...more,
  });
const many = (count: number, requests: (index: number) => number) =>
  Array.from({ length: count }, (_, index) => statsOf(`r${index}`, requests(index)));
const find = (stats: readonly RouteStats[], id: string) => stats.find((one) => one.id === id);

test('who has a series of its own keeps it, however busy another one becomes', () => {
  const series = new RouteSeries();
  const before = series.bounded(many(600, (index) => 1_000 - index));
  assert.equal(before.length, 500);
  assert.equal(
    find(before, 'other')?.requests,
    Array.from({ length: 101 }, (_, at) => 501 - at).reduce((a, b) => a + b),
  );
  const after = series.bounded(many(600, (index) => (index === 599 ? 1_000_000 : 1_000 - index)));
  assert.equal(find(after, 'r599'), undefined);
  assert.ok((find(after, 'other')?.requests ?? 0) > 1_000_000);
});

test('what was counted of routes that are gone stays, also of those that were left out once', () => {
  const series = new RouteSeries();
  const all = many(510, () => 10);
  const others = all.slice(499);
  assert.equal(find(series.bounded(all), 'other')?.requests, 110);
  const left = all.filter((one) => one !== others[0]);
  for (let look = 0; look < 5; look += 1) assert.equal(find(series.bounded(left), 'other')?.requests, 110);
  assert.equal(find(series.bounded(all), 'other')?.requests, 110);
  for (let look = 0; look < 50; look += 1) assert.equal(find(series.bounded(left), 'other')?.requests, 110);
});

test('what is under way at routes that are gone is nothing', () => {
  const series = new RouteSeries();
  const all = [...many(510, () => 1), statsOf('busy', 1, { active: 3 })];
  assert.equal(find(series.bounded(all), 'other')?.active, 3);
  const left = all.filter(({ id }) => id !== 'busy');
  for (let look = 0; look < 50; look += 1) assert.equal(find(series.bounded(left), 'other')?.active, 0);
});

test('a place that was given up is a new route’s, not one’s of `other`', () => {
  const series = new RouteSeries();
  const all = many(510, () => 10);
  series.bounded(all);
  for (let look = 0; look < 50; look += 1) series.bounded(all.slice(1));
  const after = series.bounded([...all.slice(1), statsOf('new', 1)]);
  assert.ok(find(after, 'new') !== undefined);
  assert.equal(find(after, 'r509'), undefined);
  assert.equal(find(after, 'other')?.requests, 110);
});
