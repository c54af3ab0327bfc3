/** Figures of routes as people read them. Pure. */
import { latencyAt } from '@flynn/controller/routes/latency';
import type { RouteStats } from '@flynn/controller/routes/stats';

/** What was counted between two readings. A router that began anew in between counts from its start. */
export function statsSince(before: RouteStats | undefined, after: RouteStats): RouteStats {
  if (before === undefined || after.requests < before.requests) return after;
  const counts = after.latency.counts.map((count, index) => less(count, before.latency.counts[index]));
  return {
    ...after,
    requests: less(after.requests, before.requests),
    answers: {
      '1xx': less(after.answers['1xx'], before.answers['1xx']),
      '2xx': less(after.answers['2xx'], before.answers['2xx']),
      '3xx': less(after.answers['3xx'], before.answers['3xx']),
      '4xx': less(after.answers['4xx'], before.answers['4xx']),
      '5xx': less(after.answers['5xx'], before.answers['5xx']),
    },
    refusals: Object.fromEntries(
      Object.entries(after.refusals).map(([code, count]) => [code, less(count, before.refusals[code])]),
    ),
    clientsGone: less(after.clientsGone, before.clientsGone),
    brokenOff: less(after.brokenOff, before.brokenOff),
    retries: less(after.retries, before.retries),
    bytesIn: less(after.bytesIn, before.bytesIn),
    bytesOut: less(after.bytesOut, before.bytesOut),
    latency: { counts, sumMs: less(after.latency.sumMs, before.latency.sumMs) },
  };
}

function less(after: number, before = 0): number {
  return Math.max(0, after - before);
}

export function statsColumns(seconds: number | undefined): string[] {
  const rate = seconds === undefined ? 'REQUESTS' : 'REQ/S';
  return [rate, 'ACTIVE', '2XX', '3XX', '4XX', '5XX', 'P50', 'P99', 'IN', 'OUT', 'RETRIES', 'BACKENDS'];
}

export function statsRow(stats: RouteStats, seconds: number | undefined): string[] {
  const { requests, active, answers, latency, retries, bytesIn, bytesOut, backends } = stats;
  const serving = backends.filter(({ isLeaving, ejectedBy }) => !isLeaving && ejectedBy === 0).length;
  const all = backends.filter(({ isLeaving }) => !isLeaving).length;
  return [
    seconds === undefined ? String(requests) : (requests / seconds).toFixed(1),
    String(active),
    ...[answers['2xx'], answers['3xx'], answers['4xx'], answers['5xx']].map(String),
    ...[0.5, 0.99].map((share) => latencyText(latencyAt(share, latency))),
    sizeText(bytesIn),
    sizeText(bytesOut),
    String(retries),
    serving === all ? String(all) : `${serving}/${all}`,
  ];
}

export function latencyText(ms: number | undefined): string {
  if (ms === undefined) return '-';
  return ms < 10 ? `${ms.toFixed(1)}ms` : ms < 1_000 ? `${Math.round(ms)}ms` : `${(ms / 1_000).toFixed(1)}s`;
}

const units = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

export function sizeText(bytes: number): string {
  let amount = bytes;
  for (const unit of units) {
    if (amount < 1024 || unit === 'TB') return unit === 'B' ? `${amount}B` : `${amount.toFixed(1)}${unit}`;
    amount /= 1024;
  }
  return '';
}
