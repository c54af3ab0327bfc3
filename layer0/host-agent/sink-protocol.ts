/**
 * The sink protocol: where this host's lines go. Any service announced as `log-aggregator` that takes the route below with
 * the cluster key can be a sink; every instance gets every line.
 *
 * The body is ndjson of LogLine for as long as the agent likes; the answer confirms what was in it. Lines come again after
 * a broken connection (job, stream and time are a line's identity): the newest 1,000 of every live container, because
 * what answers under a known name may be a new process with an empty memory.
 */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import type { LogLine } from './api.ts';

export const sinkService = 'log-aggregator';

export const sinkRoute = defineRoute({
  method: 'POST',
  path: '/lines',
  body: 'stream',
  response: z.object({ lines: z.int() }),
  summary: 'Take lines from a host agent',
});

/** The newest lines of every live container, for an instance that has none of them. */
export type Replay = (signal: AbortSignal) => AsyncIterable<LogLine>;
