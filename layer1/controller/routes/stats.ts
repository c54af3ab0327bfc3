/** What routers count for each route: each tells its own since its start, and sums are made of them. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

/** Answers by the class of their status. */
const answersSchema = z.object({ '1xx': z.int(), '2xx': z.int(), '3xx': z.int(), '4xx': z.int(), '5xx': z.int() });

const backendStatsSchema = z.object({
  /** The service is counted, not the route: others may lead to the same. */
  service: z.string(),
  address: z.string(),
  release: z.string().optional(),
  isLeader: z.boolean(),
  isLeaving: z.boolean(),
  /** Under way now. */
  active: z.int(),
  answers: answersSchema,
  /** Could not be dialled, broke, or were late. */
  failures: z.int(),
  ejections: z.int(),
  /** Of the routers that were asked, how many send it nothing now because it failed too often. */
  ejectedBy: z.int(),
});
export type BackendStats = z.output<typeof backendStatsSchema>;

export const routeStatsSchema = z.object({
  id: z.string(),
  appId: z.string(),
  service: z.string(),
  /** When counting began, milliseconds since the epoch; of a sum, the earliest. */
  sinceMs: z.number(),
  /** That have ended; of a TCP route, its connections. */
  requests: z.int(),
  /** Under way now. */
  active: z.int(),
  answers: answersSchema,
  /** Of these, what the router answered itself, by code (`no-backends`, `rate-limited` …). */
  refusals: z.record(z.string(), z.int()),
  /** Clients that left before the answer's end; answers broken off by the backend. */
  clientsGone: z.int(),
  brokenOff: z.int(),
  /** Requests were tried again this often. */
  retries: z.int(),
  /** Of bodies, or all of a TCP route's connections that have ended: from clients, to clients. */
  bytesIn: z.number(),
  bytesOut: z.number(),
  /**
   * From the request's head to the end of its answer, upgraded connections left out; `counts` has one number for each of
   * `latencyBoundsMs`, and one more.
   */
  latency: z.object({ counts: z.array(z.int()), sumMs: z.number() }),
  backends: z.array(backendStatsSchema),
});
export type RouteStats = z.output<typeof routeStatsSchema>;

/** Answered by every router on its status port. */
export const routerStats = {
  one: defineRoute({
    method: 'GET',
    path: '/routes/:route/stats',
    response: routeStatsSchema,
    summary: 'What this router counted for a route since its start',
  }),
  all: defineRoute({
    method: 'GET',
    path: '/stats',
    query: z.object({ app: z.string().optional() }),
    response: z.array(routeStatsSchema),
    summary: 'The same of all routes, or of an app’s, that had a request',
  }),
} as const;

/** Of the same route at several routers. */
export function sumRouteStats(stats: readonly [RouteStats, ...RouteStats[]]): RouteStats {
  const [first, ...others] = stats;
  return others.reduce(addRouteStats, first);
}

function addRouteStats(a: RouteStats, b: RouteStats): RouteStats {
  const backends = new Map(a.backends.map((backend) => [keyOf(backend), backend]));
  for (const backend of b.backends) {
    const same = backends.get(keyOf(backend));
    backends.set(keyOf(backend), same === undefined ? backend : addBackendStats(same, backend));
  }
  return {
    ...a,
    sinceMs: Math.min(a.sinceMs, b.sinceMs),
    requests: a.requests + b.requests,
    active: a.active + b.active,
    answers: addCounts(a.answers, b.answers),
    refusals: addRecords(a.refusals, b.refusals),
    clientsGone: a.clientsGone + b.clientsGone,
    brokenOff: a.brokenOff + b.brokenOff,
    retries: a.retries + b.retries,
    bytesIn: a.bytesIn + b.bytesIn,
    bytesOut: a.bytesOut + b.bytesOut,
    latency: {
      counts: a.latency.counts.map((count, index) => count + (b.latency.counts[index] ?? 0)),
      sumMs: a.latency.sumMs + b.latency.sumMs,
    },
    backends: [...backends.values()],
  };
}

function addBackendStats(a: BackendStats, b: BackendStats): BackendStats {
  return {
    ...a,
    isLeader: a.isLeader || b.isLeader,
    isLeaving: a.isLeaving && b.isLeaving,
    active: a.active + b.active,
    answers: addCounts(a.answers, b.answers),
    failures: a.failures + b.failures,
    ejections: a.ejections + b.ejections,
    ejectedBy: a.ejectedBy + b.ejectedBy,
  };
}

type Answers = RouteStats['answers'];

function addCounts(a: Answers, b: Answers): Answers {
  return {
    '1xx': a['1xx'] + b['1xx'],
    '2xx': a['2xx'] + b['2xx'],
    '3xx': a['3xx'] + b['3xx'],
    '4xx': a['4xx'] + b['4xx'],
    '5xx': a['5xx'] + b['5xx'],
  };
}

function addRecords(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>): Record<string, number> {
  const sum = { ...a };
  for (const [name, count] of Object.entries(b)) sum[name] = (sum[name] ?? 0) + count;
  return sum;
}

function keyOf({ service, address }: BackendStats): string {
  return `${service} ${address}`;
}
