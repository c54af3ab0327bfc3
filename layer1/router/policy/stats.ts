/** What was counted, as it is told. */
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
    if (appId !== undefined && each.route.appId !== appId) continue;
    if ('hasFigures' in each && !each.hasFigures) continue;
    if (each.figures.requests + each.figures.active > 0) stats.push(statsOf(each));
  }
  return stats;
}
