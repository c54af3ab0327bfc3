import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sumByApp } from './app-stats.ts';
import type { AppPart } from './app-stats.ts';

const part = (appId: string, sinceMs: number, latency: ArrayLike<number> = [0, 8]): AppPart => ({
  appId,
  routes: 1,
  sinceMs,
  requests: 8,
  active: 1,
  clientErrors: 2,
  serverErrors: 1,
  latency,
});

test('parts of one app are one, each app is by itself, and what they were made of stays as it is', () => {
  const [first, figures] = [part('shop', 70), Float64Array.of(1, 7)];
  const all = sumByApp([first, part('shop', 30, figures), part('blog', 50, figures)]);
  const shop = { appId: 'shop', routes: 2, sinceMs: 30, requests: 16, active: 2, clientErrors: 4, serverErrors: 2 };
  assert.deepEqual(all, [
    { ...shop, latency: [1, 15] },
    { ...part('blog', 50), latency: [1, 7] },
  ]);
  assert.deepEqual([first.requests, first.latency, [...figures]], [8, [0, 8], [1, 7]]);
  assert.deepEqual(sumByApp([]), []);
});
