/** `GET /metrics` of every part of the platform. */
import { Readable } from 'node:stream';
import { hasCode, messageOf } from './errors.ts';
import { type Handler, type RunningServer, handle, startServer } from './http-server.ts';
import type { Logger } from './log.ts';
import { Metrics, processMetrics } from './metrics.ts';
import { metricsPath, metricsType } from './metrics-token.ts';
import { defineRoute } from './routes.ts';

export const metricsRoute = defineRoute({
  method: 'GET',
  path: metricsPath,
  access: 'cluster viewer',
  response: 'stream',
  responseType: metricsType,
  summary: 'Figures for Prometheus',
});

/** Parts that have no other server serve their figures here, in a network of their own. */
export const metricsPort = 9117;

/** With the figures of the process itself. */
export function openMetrics(): Metrics {
  const metrics = new Metrics();
  processMetrics(metrics);
  return metrics;
}

export function metricsHandler(metrics: Metrics): Handler {
  return handle(metricsRoute, async () => metricsAnswer(await metrics.text()));
}

export function metricsAnswer(text: string): { body: Readable } {
  return { body: Readable.from([text]) };
}

/** For parts that serve nothing else over HTTP. Where the port is taken they go on without: figures stop no work. */
export async function serveMetrics(
  metrics: Metrics,
  options: { name: string; key: string; log: Logger; signal: AbortSignal; port?: number },
): Promise<RunningServer | undefined> {
  const { port = metricsPort, ...rest } = options;
  try {
    return await startServer({ ...rest, port, handlers: [metricsHandler(metrics)] });
  } catch (error) {
    if (!hasCode(error, 'conflict', 'denied')) throw error;
    options.log.warn(`figures are not served: ${messageOf(error)}; FLYNN_METRICS_PORT names another port`);
    return undefined;
  }
}
