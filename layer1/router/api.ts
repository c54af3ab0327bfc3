/** The router's own HTTP API, on its status port. */
import { wordRoute } from '@flynn/discovery/routers';
import { routerAppStats } from '@flynn/controller/routes/app-stats';
import { routerStats } from '@flynn/controller/routes/stats';
import { metricsType } from '@flynn/kit/metrics-token';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const statusSchema = z.object({
  /** Processes that take connections now; left out by one that is a single process. */
  workers: z.int().optional(),
  /** False until the controller has told all routes for the first time. */
  hasRoutes: z.boolean(),
  routes: z.object({ http: z.int(), tcp: z.int() }),
  /** Only while something is in use that was kept from before: the routes, the backends of these services. */
  remembered: z.object({ savedAt: z.string(), routes: z.boolean(), services: z.array(z.string()) }).optional(),
  /** A backend that left discovery is listed as long as it still has requests. */
  backends: z.array(
    z.object({
      service: z.string(),
      address: z.string(),
      inFlight: z.int(),
      isLeaving: z.boolean(),
      /** Gets nothing for now, because it failed too often. */
      isEjected: z.boolean(),
    }),
  ),
  /** Left out by one that does not listen for TLS. */
  tls: z
    .object({
      certificates: z.int(),
      /** Names whose certificate is over, and served still. */
      expired: z.array(z.string()),
      /** When they were saved, while they are those from before. */
      remembered: z.string().optional(),
      /** Since the start: done, failed, and for names nobody has a certificate for. */
      handshakes: z.int(),
      failures: z.int(),
      unknownNames: z.int(),
    })
    .optional(),
  /** Since the start. */
  counters: z.object({
    requests: z.int(),
    upgrades: z.int(),
    tcpConnections: z.int(),
    dialFailures: z.int(),
    retries: z.int(),
    clientsGone: z.int(),
    /** Answers by the router itself, by their code. */
    refusals: z.record(z.string(), z.int()),
  }),
});
export type Status = z.output<typeof statusSchema>;
export type Counters = Status['counters'];

export const routes = {
  word: wordRoute,
  status: defineRoute({ method: 'GET', path: '/status', response: statusSchema, summary: 'What the router does' }),
  routeStats: routerStats.one,
  allStats: routerStats.all,
  appStats: routerAppStats,
  metrics: defineRoute({
    method: 'GET',
    path: '/metrics',
    response: 'stream',
    responseType: metricsType,
    summary: 'Figures for Prometheus',
  }),
} as const;
