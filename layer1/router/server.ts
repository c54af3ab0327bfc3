/** The router's own HTTP API. */
import { Readable } from 'node:stream';
import type { RouteStats } from '@flynn/controller/routes/stats';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { routes } from './api.ts';
import type { Status } from './api.ts';
import type { Knowledge } from './knowledge.ts';
import { prometheusText } from './policy/prometheus.ts';

/** What is asked of a router, or of all workers of one together. */
export type Told = {
  status(): Status;
  /** Undefined for a route that it does not know. */
  routeStats(id: string): RouteStats | undefined;
  /** Of all that had a request, perhaps of one app's. */
  allStats(appId?: string): RouteStats[];
  /** What it has taken in. */
  readonly knowledge: Knowledge;
};

export function statusHandlers(router: Told): Handler[] {
  return [
    handle(routes.status, async () => router.status()),
    handle(routes.routeStats, async ({ params }) => {
      const stats = router.routeStats(params.route);
      if (stats === undefined) throw new FlynnError('not_found', `this router knows no HTTP route ${params.route}`);
      return stats;
    }),
    handle(routes.allStats, async ({ query }) => router.allStats(query.app)),
    handle(routes.metrics, async () => ({
      body: Readable.from([prometheusText(router.allStats(), router.status().counters)]),
      headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
    })),
    handle(routes.word, async ({ body: { waitMs, ...word }, signal }) => ({
      isSo: await router.knowledge.becomesSo(word, { waitMs, signal }),
    })),
  ];
}
