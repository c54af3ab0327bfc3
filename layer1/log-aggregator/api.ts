/** The log aggregator's HTTP API. */
import { defineRoute } from '@flynn/kit/routes';
import { booleanFlag } from '@flynn/kit/config';
import { z } from 'zod';

export const lineSchema = z.object({
  jobId: z.string(),
  hostId: z.string(),
  processType: z.string(),
  stream: z.enum(['stdout', 'stderr', 'init']),
  timestamp: z.string(),
  message: z.string(),
});
export type Line = z.output<typeof lineSchema>;

/** Which of an app's lines: the newest `lines`, of one job or process type, of the streams named with commas between. */
export const linesQuerySchema = z.object({
  follow: booleanFlag.optional(),
  lines: z.coerce.number().int().min(0).max(10_000).optional(),
  jobId: z.string().optional(),
  processType: z.string().optional(),
  streams: z.string().optional(),
});

export const routes = {
  /** ndjson of the host agent's LogLine, for as long as the agent likes; lines already there (same job, timestamp, stream, message position) are not added twice. Answers when the body ends. */
  ingest: defineRoute({
    method: 'POST',
    path: '/lines',
    body: 'stream',
    response: z.object({ lines: z.int() }),
    summary: 'Take lines from a host agent',
  }),
  /** ndjson of Line, oldest first, merged by timestamp. Empty lines in between mean nothing: they keep the connection. */
  read: defineRoute({
    method: 'GET',
    path: '/apps/:app/lines',
    query: linesQuerySchema,
    response: 'stream',
    summary: "An app's lines",
  }),
} as const;
