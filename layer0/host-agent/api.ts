/** The host agent's API on port 1113, with the cluster key. It works when all of Layer 1 is down. */
import { defineRoute } from '@flynn/kit/routes';
import { booleanFlag } from '@flynn/kit/config';
import { hostRecordSchema, jobStatusSchema } from '@flynn/scheduler/cell';
import { z } from 'zod';

export const logLineSchema = z.object({
  jobId: z.string(),
  hostId: z.string(),
  stream: z.enum(['stdout', 'stderr', 'init']),
  /** ISO 8601 with nanoseconds as the engine wrote it. With the job's id it is the line's identity. */
  timestamp: z.string(),
  message: z.string(),
  meta: z.record(z.string(), z.string()),
});
export type LogLine = z.output<typeof logLineSchema>;

/** How to attach to a job: with input, with the output so far, and on a terminal of which size. */
export const attachQuerySchema = z.object({
  stdin: booleanFlag.optional(),
  logs: booleanFlag.optional(),
  columns: z.coerce.number().int().optional(),
  rows: z.coerce.number().int().optional(),
});

export const routes = {
  host: defineRoute({
    method: 'GET',
    path: '/host',
    response: hostRecordSchema.extend({ jobs: z.int(), version: z.string() }),
    summary: 'The host and what it has',
  }),
  jobs: defineRoute({
    method: 'GET',
    path: '/jobs',
    query: z.object({ active: booleanFlag.optional() }),
    response: z.array(jobStatusSchema),
    summary: 'Jobs on this host, the newest 25 ended ones included',
  }),
  job: defineRoute({ method: 'GET', path: '/jobs/:job', response: jobStatusSchema, summary: 'One job' }),
  /** ndjson of LogLine; ends when the job ended for good unless it never does with follow=false. */
  log: defineRoute({
    method: 'GET',
    path: '/jobs/:job/log',
    query: z.object({ follow: booleanFlag.optional(), lines: z.coerce.number().int().min(0).max(10_000).optional() }),
    response: 'stream',
    summary: "A job's output as ndjson",
  }),
  /** Frames of @flynn/kit/frames. Waits up to 60 s for the job to be there. With logs=true output from the start comes first. */
  attach: defineRoute({
    method: 'GET',
    path: '/jobs/:job/attach',
    query: attachQuerySchema,
    response: 'upgrade',
    summary: "Attach to a job's streams",
  }),
  signal: defineRoute({
    method: 'POST',
    path: '/jobs/:job/signal',
    body: z.object({ signal: z.string().regex(/^SIG[A-Z0-9]+$/) }),
    response: 'empty',
    summary: 'Send a signal to a job',
  }),
  /** Ends the container as if it had been told to stop; the assignment decides whether it is started again. */
  stop: defineRoute({
    method: 'POST',
    path: '/jobs/:job/stop',
    response: 'empty',
    summary: "Stop a job's container: TERM, its stop timeout, KILL",
  }),
} as const;
