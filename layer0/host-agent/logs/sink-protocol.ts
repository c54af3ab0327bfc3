/**
 * The sink protocol: where this host's lines go. Any service announced as `log-aggregator` that takes the route below with
 * the cluster key can be a sink; every instance gets every line.
 *
 * The body is ndjson of LogLine; the answer confirms it: until then the lines are sent again. `fresh` lines were never sent
 * before, of lines sent `again` some may have arrived (job, stream and time are a line's identity). Every connection begins
 * with a `replay`: the newest 1,000 lines of every live container, because what answers under a known name may be a new
 * process with an empty memory. Where many hosts send again at once, `exhausted` says that nothing was taken, and to send the
 * same later.
 */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import type { LogLine } from '../api.ts';

export const sinkService = 'log-aggregator';

export type SinkInstance = { id: string; address: string; attributes?: Record<string, string> };

const sendingSchema = z.enum(['fresh', 'again', 'replay']);
export type Sending = z.output<typeof sendingSchema>;

export const sinkRoute = defineRoute({
  method: 'POST',
  path: '/lines',
  query: z.object({ mode: sendingSchema }),
  body: 'stream',
  response: z.object({ lines: z.int() }),
  summary: 'Take lines from a host agent',
});

/** The newest lines of every live container, for an instance that has none of them. */
export type Replay = (signal: AbortSignal) => AsyncIterable<LogLine>;
