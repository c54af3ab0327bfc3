/** What a router counted for an app, over all of its routes: little enough to be asked of all apps again and again. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { latencyBoundsMs } from './latency.ts';
import type { RouteStats } from './stats.ts';

export const appStatsSchema = z.object({
  appId: z.string(),
  /** Routes that had a request. With one of them its counts go. */
  routes: z.int(),
  /** Of the earliest of them. */
  sinceMs: z.number(),
  requests: z.int(),
  active: z.int(),
  clientErrors: z.int(),
  serverErrors: z.int(),
  /** As of routes. */
  latency: z.array(z.int()),
});
export type AppStats = z.output<typeof appStatsSchema>;

/** Answered by every router on its status port. */
export const routerAppStats = defineRoute({
  method: 'GET',
  path: '/app-stats',
  response: z.array(appStatsSchema),
  summary: 'What this router counted for each app that had a request, since its start',
});

export function sumByApp(stats: readonly RouteStats[]): AppStats[] {
  const sums = new Map<string, AppStats>();
  for (const { appId, sinceMs, requests, active, answers, latency } of stats) {
    const sum = sums.get(appId) ?? { ...nothing, appId, sinceMs };
    sums.set(appId, {
      appId,
      routes: sum.routes + 1,
      sinceMs: Math.min(sum.sinceMs, sinceMs),
      requests: sum.requests + requests,
      active: sum.active + active,
      clientErrors: sum.clientErrors + answers['4xx'],
      serverErrors: sum.serverErrors + answers['5xx'],
      latency: sum.latency.map((count, index) => count + (latency.counts[index] ?? 0)),
    });
  }
  return [...sums.values()];
}

const nothing = {
  routes: 0,
  requests: 0,
  active: 0,
  clientErrors: 0,
  serverErrors: 0,
  latency: Array.from({ length: latencyBoundsMs.length + 1 }, () => 0),
};
