/** The API of routes: public entries to apps, what they do with requests, and how that goes. */
import { serviceName } from '@flynn/kit/names';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { routeSchema } from '../model.ts';
import { pageQuery } from '../paging.ts';
import { waitQuery } from './reach.ts';
import { httpChangeSchema, maintenanceSchema, tcpChangeSchema } from './settings.ts';
import { routeStatsSchema } from './stats.ts';

/** `httpsPort`: where it answers over TLS, while a certificate that has not expired is shown for its name. */
const routeViewSchema = routeSchema.extend({ httpsPort: z.int().optional() });
export type RouteView = z.output<typeof routeViewSchema>;

export const routing = {
  create: defineRoute({
    method: 'POST',
    path: '/apps/:app/routes',
    access: 'app developer',
    query: waitQuery,
    body: z.strictObject({
      type: z.enum(['http', 'tcp']).default('http'),
      domain: z.string().optional(),
      path: z.string().optional(),
      port: z.int().optional(),
      service: serviceName.optional(),
      http: httpChangeSchema.optional(),
      tcp: tcpChangeSchema.optional(),
    }),
    response: routeViewSchema,
    summary: 'Add a route; the service is APP-web unless named; a tcp port is found unless given',
  }),
  /** `:route` is its id, or where it is: `shop.example.com/blog`, `tcp:3000`. */
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app/routes/:route',
    access: 'app viewer',
    response: routeViewSchema,
    summary: 'One route',
  }),
  update: defineRoute({
    method: 'PATCH',
    path: '/apps/:app/routes/:route',
    access: 'app developer',
    query: waitQuery,
    body: z.strictObject({
      service: serviceName.optional(),
      http: httpChangeSchema.optional(),
      tcp: tcpChangeSchema.optional(),
      /** As If-Match: `conflict` if somebody changed it since. */
      revision: z.int().optional(),
    }),
    response: routeViewSchema,
    summary: 'Change how a route answers; what is left out stays, null takes a setting back',
  }),
  reach: defineRoute({
    method: 'POST',
    path: '/apps/:app/route-reach',
    access: 'app viewer',
    body: z.strictObject({
      /** As the answer to the change had it; without a revision: it was removed. */
      routes: z
        .array(z.strictObject({ id: z.string(), revision: z.int().optional() }))
        .min(1)
        .max(1_000),
      waitMs: z.int().min(0).max(20_000).default(5_000),
    }),
    /** Addresses of the routers that do not have it yet: empty once every request is answered by it. */
    response: z.object({ missing: z.array(z.string()) }),
    summary: 'Wait until every router has a change of routes, and tell which have not',
  }),
  stats: defineRoute({
    method: 'GET',
    path: '/apps/:app/route-stats',
    access: 'app viewer',
    /** An id, or where it is. */
    query: z.object({ route: z.string().optional() }),
    response: z.object({
      /** Of every route of the app that had a request, all routers together. */
      routes: z.array(routeStatsSchema),
      /** How many routers are counted. */
      routers: z.int(),
      /** Those that could not be asked: what they counted is missing. */
      silent: z.array(z.object({ address: z.string(), why: z.string() })),
    }),
    summary: 'What all routers counted for the routes of an app since their start',
  }),
  beginMaintenance: defineRoute({
    method: 'PUT',
    path: '/apps/:app/maintenance',
    access: 'app developer',
    query: waitQuery,
    body: maintenanceSchema,
    response: z.array(routeSchema),
    summary: "Answer all requests to an app's http routes with 503 and the maintenance page",
  }),
  endMaintenance: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/maintenance',
    access: 'app developer',
    query: waitQuery,
    response: z.array(routeSchema),
    summary: 'Let requests through to the app again',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/routes',
    access: 'app viewer',
    query: pageQuery,
    response: z.array(routeViewSchema),
    summary: "An app's routes",
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/routes/:route',
    access: 'app developer',
    query: waitQuery,
    response: 'empty',
    summary: 'Remove a route',
  }),
  /**
   * Events `set` (a Route) for every route, `current`, then `set` and `remove` ({id}); `unreadable` ({id}) for one that is there
   * and that the controller cannot read: what was known of it stays. The event's id is the revision to resume after; there is none
   * as long as there is one that was told to be unreadable. Resumed, `current` comes first.
   */
  events: defineRoute({
    method: 'GET',
    path: '/routes/events',
    response: 'events',
    isResumable: true,
    summary: 'All routes, then changes',
  }),
} as const;
