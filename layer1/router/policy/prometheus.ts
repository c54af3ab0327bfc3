/** The same figures as Prometheus reads them: https://prometheus.io/docs/instrumenting/exposition_formats/ */
import { latencyBoundsMs } from '@flynn/controller/routes/latency';
import type { BackendStats, RouteStats } from '@flynn/controller/routes/stats';
import { MetricsText } from '@flynn/kit/metrics';
import type { Labels } from '@flynn/kit/metrics';
import type { Counters } from '../api.ts';

/** `routes`: at most as many as there are to be series of, as `RouteSeries` has them. */
export function prometheusText(routes: readonly RouteStats[], counters: Counters): string {
  const text = new MetricsText();
  routeMetrics(text, routes);
  latencyMetric(text, routes);
  backendMetrics(text, routes);
  text.metric('flynn_router_refusals_total', 'counter', 'Answers by the router itself', (add) => {
    for (const [code, count] of Object.entries(counters.refusals)) add({ code }, count);
  });
  for (const [name, help, value] of [
    ['requests_total', 'Requests, of no route too', counters.requests],
    ['upgrades_total', 'Requests to upgrade the connection', counters.upgrades],
    ['tcp_connections_total', 'Connections of TCP routes', counters.tcpConnections],
    ['dial_failures_total', 'Backends that could not be reached', counters.dialFailures],
    ['clients_gone_total', 'Clients that left before their answer', counters.clientsGone],
  ] as const) {
    text.metric(`flynn_router_${name}`, 'counter', help, (add) => add({}, value));
  }
  return text.done();
}

function labelsOf({ id, appId, service }: RouteStats): Labels {
  return { route: id, app: appId, service };
}

function routeMetrics(text: MetricsText, routes: readonly RouteStats[]): void {
  text.metric('flynn_router_route_answers_total', 'counter', 'Answers by class of status', (add) => {
    for (const route of routes) {
      for (const [status, count] of Object.entries(route.answers)) add({ ...labelsOf(route), status }, count);
    }
  });
  for (const [name, type, help, read] of [
    ['requests_total', 'counter', 'Requests that have ended, or connections of TCP routes', (route) => route.requests],
    ['active_requests', 'gauge', 'Requests under way, or connections', (route) => route.active],
    ['retries_total', 'counter', 'Tries at another backend', (route) => route.retries],
    ['clients_gone_total', 'counter', 'Clients that left before their answer', (route) => route.clientsGone],
    ['broken_off_total', 'counter', 'Answers that broke off', (route) => route.brokenOff],
    ['received_bytes_total', 'counter', 'Of bodies of requests', (route) => route.bytesIn],
    ['sent_bytes_total', 'counter', 'Of bodies of answers', (route) => route.bytesOut],
  ] as const satisfies [string, 'counter' | 'gauge', string, (route: RouteStats) => number][]) {
    text.metric(`flynn_router_route_${name}`, type, help, (add) => {
      for (const route of routes) add(labelsOf(route), read(route));
    });
  }
  text.metric('flynn_router_route_refusals_total', 'counter', 'Answers by the router itself', (add) => {
    for (const route of routes) {
      for (const [code, count] of Object.entries(route.refusals)) add({ ...labelsOf(route), code }, count);
    }
  });
}

function latencyMetric(text: MetricsText, routes: readonly RouteStats[]): void {
  const name = 'flynn_router_route_duration_seconds';
  text.metric(name, 'histogram', 'From a request’s head to the end of its answer', (add) => {
    for (const route of routes) {
      const labels = labelsOf(route);
      let total = 0;
      for (const [index, count] of route.latency.counts.entries()) {
        total += count;
        const bound = latencyBoundsMs[index];
        add({ ...labels, le: bound === undefined ? '+Inf' : String(bound / 1_000) }, total, '_bucket');
      }
      add(labels, route.latency.sumMs / 1_000, '_sum');
      add(labels, total, '_count');
    }
  });
}

function backendMetrics(text: MetricsText, routes: readonly RouteStats[]): void {
  const backends = new Map<string, BackendStats>();
  for (const route of routes) {
    for (const backend of route.backends) backends.set(`${backend.service} ${backend.address}`, backend);
  }
  const labelsOf = ({ service, address }: BackendStats) => ({ service, backend: address });
  text.metric('flynn_router_backend_answers_total', 'counter', 'Answers by class of status', (add) => {
    for (const backend of backends.values()) {
      for (const [status, count] of Object.entries(backend.answers)) add({ ...labelsOf(backend), status }, count);
    }
  });
  for (const [name, type, help, read] of [
    ['active_requests', 'gauge', 'Requests under way', (backend) => backend.active],
    ['failures_total', 'counter', 'Failed dials, broken and late connections', (backend) => backend.failures],
    ['ejections_total', 'counter', 'How often it was left alone for failing', (backend) => backend.ejections],
    ['ejected', 'gauge', 'Whether it is left alone for failing now', (backend) => backend.ejectedBy],
  ] as const satisfies [string, 'counter' | 'gauge', string, (backend: BackendStats) => number][]) {
    text.metric(`flynn_router_backend_${name}`, type, help, (add) => {
      for (const backend of backends.values()) add(labelsOf(backend), read(backend));
    });
  }
}
