/** What a router counted for each app, over all of its routes: little enough to be asked again and again. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const appStatsSchema = z.object({
  appId: z.string(),
  /** Routes that had a request, in each of the router's processes. With one of them its counts go. */
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

export const routerCountsSchema = z.object({
  /** Of this start of the router: another one, at the same address too, has counted by itself. */
  instance: z.string(),
  /** When this was counted, by a clock that begins with the instance and is never set. */
  atMs: z.number(),
  apps: z.array(appStatsSchema),
});
export type RouterCounts = z.output<typeof routerCountsSchema>;

/** Answered by every router on its status port. */
export const routerAppStats = defineRoute({
  method: 'GET',
  path: '/app-stats',
  response: routerCountsSchema,
  summary: 'What this router counted for each app that had a request, since its start',
});

/** A part of what there is of an app: of a route, or of a process. */
export type AppPart = Omit<AppStats, 'latency'> & Readonly<{ latency: ArrayLike<number> }>;

export function sumByApp(parts: Iterable<AppPart>): AppStats[] {
  const sums = new Map<string, AppStats>();
  for (const part of parts) {
    const sum = sums.get(part.appId);
    if (sum === undefined) sums.set(part.appId, { ...part, latency: Array.from(part.latency) });
    else add(sum, part);
  }
  return [...sums.values()];
}

/** In place: there may be a hundred thousand routes. */
function add(sum: AppStats, part: AppPart): void {
  sum.routes += part.routes;
  sum.sinceMs = Math.min(sum.sinceMs, part.sinceMs);
  sum.requests += part.requests;
  sum.active += part.active;
  sum.clientErrors += part.clientErrors;
  sum.serverErrors += part.serverErrors;
  for (let index = 0; index < part.latency.length; index += 1) {
    sum.latency[index] = (sum.latency[index] ?? 0) + (part.latency[index] ?? 0);
  }
}
