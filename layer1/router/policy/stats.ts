/** What was counted, as it is told. */
import { sumByApp } from '@flynn/controller/routes/app-stats';
import type { AppPart, AppStats } from '@flynn/controller/routes/app-stats';
import type { BackendStats, RouteStats } from '@flynn/controller/routes/stats';
import type { Backend } from '../backend.ts';
import type { HttpRoute } from './http-route.ts';
import type { TcpRoute } from './route-book.ts';

export function statsOf({ id, route, service, figures }: HttpRoute | TcpRoute): RouteStats {
  return {
    id,
    appId: route.appId,
    service: service.name,
    sinceMs: figures.sinceMs,
    requests: figures.requests,
    active: figures.active,
    answers: figures.answers.read(),
    refusals: Object.fromEntries(figures.refusals),
    clientsGone: figures.clientsGone,
    brokenOff: figures.brokenOff,
    retries: figures.retries,
    bytesIn: figures.bytesIn,
    bytesOut: figures.bytesOut,
    latency: { counts: [...figures.latency], sumMs: figures.latencySumMs },
    backends: service.backends.map((backend) => backendStatsOf(backend, backend === service.leader)),
  };
}

function backendStatsOf(backend: Backend, isLeader: boolean): BackendStats {
  const { service, address, release, figures, health, inFlight, isLeaving } = backend;
  return {
    service,
    address,
    ...(release === undefined ? {} : { release }),
    isLeader,
    isLeaving,
    active: inFlight,
    answers: figures.answers.read(),
    failures: figures.failures,
    ejections: figures.ejections,
    ejectedBy: health.isEjected ? 1 : 0,
  };
}

/** Of every route that had a request, perhaps only of one app's. */
export function statsOfAll(routes: Iterable<HttpRoute | TcpRoute>, appId?: string): RouteStats[] {
  const stats: RouteStats[] = [];
  for (const each of routes) {
    if ((appId === undefined || each.route.appId === appId) && isCounted(each)) stats.push(statsOf(each));
  }
  return stats;
}

/** Of every app of which a route had a request. */
export function statsByApp(routes: Iterable<HttpRoute | TcpRoute>): AppStats[] {
  return sumByApp(partsOf(routes));
}

function* partsOf(routes: Iterable<HttpRoute | TcpRoute>): Generator<AppPart> {
  for (const each of routes) {
    if (!isCounted(each)) continue;
    const { sinceMs, requests, active, answers, latency } = each.figures;
    const { '4xx': clientErrors, '5xx': serverErrors } = answers.read();
    yield { appId: each.route.appId, routes: 1, sinceMs, requests, active, clientErrors, serverErrors, latency };
  }
}

function isCounted(route: HttpRoute | TcpRoute): boolean {
  if ('hasFigures' in route && !route.hasFigures) return false;
  return route.figures.requests + route.figures.active > 0;
}
