/** The router's own HTTP API. */
import type { AppStats } from '@flynn/controller/routes/app-stats';
import type { RouteStats } from '@flynn/controller/routes/stats';
import type { Word } from '@flynn/discovery/routers';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { Metrics } from '@flynn/kit/metrics';
import { metricsAnswer } from '@flynn/kit/metrics-server';
import { routes } from './api.ts';
import type { Status } from './api.ts';
import { AppTeller } from './app-teller.ts';
import type { Knowledge } from './knowledge.ts';
import { prometheusText } from './policy/prometheus.ts';
import { RouteSeries } from './policy/route-series.ts';

/** What was counted for apps; `unknown`: of routes that were asked about, those that are not there. */
export type AppCounts = Readonly<{ apps: AppStats[]; unknown: string[] }>;

/** What is asked of a router. */
export type Told = {
  status(): Status;
  /** Undefined for a route that it does not know. */
  routeStats(id: string): RouteStats | undefined;
  /** Of all that had a request, perhaps of one app's. */
  allStats(appId?: string): RouteStats[];
  /** Summed where it is counted. `also`: ids of routes that are asked about. */
  appCounts(also: readonly string[]): AppCounts;
  /** What it has taken in. */
  readonly knowledge: Knowledge;
};

/** The same, said to others: of one process, or of all workers together. */
export type Voice = {
  status(): Promise<Status>;
  routeStats(id: string): Promise<RouteStats | undefined>;
  allStats(appId?: string): Promise<RouteStats[]>;
  appCounts(also: readonly string[]): Promise<AppCounts>;
  /** Whether it becomes so while it is waited for. */
  isSo(word: Word, options: { waitMs: number; signal: AbortSignal }): Promise<boolean>;
};

/** `stopping`: what waits then is answered as it is, so that nobody who asks holds up the end. */
export function voiceOf(told: Told, stopping?: AbortSignal): Voice {
  return {
    status: async () => told.status(),
    routeStats: async (id) => told.routeStats(id),
    allStats: async (appId) => told.allStats(appId),
    appCounts: async (also) => told.appCounts(also),
    isSo: (word, { waitMs, signal }) => {
      const over = stopping === undefined ? signal : AbortSignal.any([signal, stopping]);
      return told.knowledge.becomesSo(word, { waitMs, signal: over });
    },
  };
}

/** `metrics`: of the process, told beside what all workers count together. */
export function statusHandlers(voice: Voice, metrics: Metrics = new Metrics()): Handler[] {
  const apps = new AppTeller(voice);
  const series = new RouteSeries();
  return [
    handle(routes.status, async () => voice.status()),
    handle(routes.routeStats, async ({ params }) => {
      const stats = await voice.routeStats(params.route);
      if (stats === undefined) throw new FlynnError('not_found', `this router knows no route ${params.route}`);
      return stats;
    }),
    handle(routes.allStats, async ({ query }) => voice.allStats(query.app)),
    handle(routes.appStats, async () => apps.tell()),
    handle(routes.metrics, async () => {
      const [stats, { counters }] = await Promise.all([voice.allStats(), voice.status()]);
      return metricsAnswer(prometheusText(series.bounded(stats), counters) + (await metrics.text()));
    }),
    handle(routes.word, async ({ body: { waitMs, ...word }, signal }) => ({
      isSo: await voice.isSo(word, { waitMs, signal }),
    })),
  ];
}
