/** The log aggregator's HTTP API. */
import { defineRoute, linesType } from '@flynn/kit/routes';
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

/** A place outside that gets every line of an app, or of all apps. */
export const drainSchema = z.object({
  id: z.string(),
  appId: z.string().optional(),
  url: z.string(),
  /** Whom to trust behind a TLS address, as PEM; else whom everybody trusts. */
  ca: z.string().optional(),
  /** It may not lead into the cluster. */
  isOutside: z.boolean().optional(),
  /** ISO 8601. A controller of a version before does not tell. */
  createdAt: z.string().optional(),
});
export type Drain = z.output<typeof drainSchema>;

/** The last that never got there. `at`: ISO 8601. */
const missedSchema = z.object({ count: z.int(), at: z.string(), why: z.string() });

/** Lines, counted since the drain was added. */
export const drainStatusSchema = z.object({
  id: z.string(),
  sent: z.int(),
  /** What the other side refused for good. */
  failed: z.int(),
  /** What was deleted to make room before it could be sent, and what the disk did not keep. */
  skipped: z.int(),
  /** Kept and not sent yet. */
  waiting: z.int(),
  /** Why nothing goes out, while nothing does. */
  error: z.string().optional(),
  /** Since when, ISO 8601. */
  since: z.string().optional(),
  /** Of `failed`; and of `skipped`, what was deleted and what the disk did not keep. A version before tells none of them. */
  gaveUp: missedSchema.optional(),
  lost: missedSchema.optional(),
  damaged: missedSchema.optional(),
});
export type DrainStatus = z.output<typeof drainStatusSchema>;

/**
 * The controller serves this one, the log aggregator asks: what apps and drains there are. Events `app` ({id, name}) and
 * `drain` (a Drain) for all of them, `current`, then `app`, `drain`, `app-removed` and `drain-removed` ({id}) as they change.
 */
export const feedRoute = defineRoute({
  method: 'GET',
  path: '/log-feed',
  response: 'events',
  summary: 'For the log aggregator: apps and drains',
});

export const routes = {
  /** ndjson of the host agent's LogLine; answers when the body has ended and its lines are on disk: how many were new. */
  ingest: defineRoute({
    method: 'POST',
    path: '/lines',
    query: z.object({ mode: sendingSchema.default('replay') }),
    body: 'stream',
    bodyTypes: [linesType],
    response: z.object({ lines: z.int() }),
    summary: 'Take lines from a host agent',
  }),
  /**
   * ndjson of Line in the order they arrived here, from all hosts. Empty lines in between mean nothing: they keep the
   * connection.
   */
  read: defineRoute({
    method: 'GET',
    path: '/apps/:app/lines',
    query: linesQuerySchema.extend({
      /** For an admin of the cluster, who may follow where others find no place. */
      isForAdmin: booleanFlag.optional(),
    }),
    response: 'stream',
    responseType: linesType,
    summary: "An app's lines",
  }),
  drains: defineRoute({
    method: 'GET',
    path: '/drains',
    response: z.array(drainStatusSchema),
    summary: 'How far each drain is',
  }),
} as const;
