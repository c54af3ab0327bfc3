/** The log aggregator's HTTP API. */
import { defineRoute } from '@flynn/kit/routes';
import { booleanFlag } from '@flynn/kit/config';
import { z } from 'zod';

export const lineSchema = z.object({
  jobId: z.string(),
  hostId: z.string(),
  processType: z.string(),
  stream: z.enum(['stdout', 'stderr', 'init']),
  /** The release that ran. */
  releaseId: z.string().optional(),
  timestamp: z.string(),
  message: z.string(),
});
export type Line = z.output<typeof lineSchema>;

const timestamp = z.iso.datetime({ error: 'expected a time in UTC, like 2030-01-31T12:00:00Z' });

/** The newest lines unless told how many, and the most there are in one answer. */
export const defaultLines = 100;
export const maxLines = 10_000;

/** Which of an app's lines: the newest `lines` (default 100) that fit all of what is named. */
export const linesQuerySchema = z.object({
  follow: booleanFlag.optional(),
  lines: z.coerce.number().int().min(0).max(maxLines).optional(),
  jobId: z.string().optional(),
  processType: z.string().optional(),
  releaseId: z.string().optional(),
  /** `stdout,stderr`, with commas between. */
  streams: z.string().optional(),
  /** At or after, and before; by the lines' own times. */
  since: timestamp.optional(),
  until: timestamp.optional(),
  /** Text within the message, upper and lower case apart. */
  search: z.string().max(1_000).optional(),
});

export type ReadOptions = z.output<typeof linesQuerySchema>;

/**
 * What a host agent says of the lines it sends. `fresh`: sent for the first time. `again`: some may have arrived before.
 * `replay`: most have, and what is older than the newest 20,000 of an app is not wanted.
 */
const sendingSchema = z.enum(['fresh', 'again', 'replay']);
export type Sending = z.output<typeof sendingSchema>;

export const routes = {
  /** ndjson of the host agent's LogLine; answers when the body has ended and its lines are on disk: how many were new. */
  ingest: defineRoute({
    method: 'POST',
    path: '/lines',
    query: z.object({ mode: sendingSchema.default('replay') }),
    body: 'stream',
    response: z.object({ lines: z.int() }),
    summary: 'Take lines from a host agent',
  }),
  /** ndjson of Line in the order they arrived here, from all hosts. Empty lines in between mean nothing: they keep the connection. */
  read: defineRoute({
    method: 'GET',
    path: '/apps/:app/lines',
    query: linesQuerySchema,
    response: 'stream',
    summary: "An app's lines",
  }),
} as const;
