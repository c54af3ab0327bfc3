/** The host agent's API on port 1113, with the cluster key. It works when all of Layer 1 is down. */
import { metricsType } from '@flynn/kit/metrics-token';
import { archiveType, defineRoute, linesType } from '@flynn/kit/routes';
import { booleanFlag } from '@flynn/kit/config';
import { hostRecordSchema, hostSettingsSchema, jobStatusSchema } from '@flynn/scheduler/cell';
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

const bytes = z.number().nonnegative();

export const jobUseSchema = z.object({
  jobId: z.string(),
  /** The host's own, which run without the store. */
  isResident: z.boolean(),
  /** Since the container's start. */
  cpuSeconds: z.number(),
  /** Of one core, since the last time somebody asked. */
  cpuPercent: z.number(),
  /** Without what is only cached from files. */
  memoryBytes: bytes,
  pids: z.int(),
  /** Since the container's start; absent in the host's network. */
  network: z.object({ receivedBytes: bytes, sentBytes: bytes }).optional(),
  /** As last measured: up to ten minutes ago, half a minute for jobs with a limit. Absent until then. */
  disk: z.object({ writableBytes: bytes, volumeBytes: bytes }).optional(),
});
export type JobUse = z.output<typeof jobUseSchema>;

export const hostUseSchema = z.object({
  cores: z.int(),
  cpuPercent: z.number(),
  load: z.number(),
  memoryBytes: bytes,
  memoryUsedBytes: bytes,
  disk: z.object({ path: z.string(), totalBytes: bytes, usedBytes: bytes, usedPercent: z.number() }),
});
export type HostUse = z.output<typeof hostUseSchema>;

export const agentStatusSchema = z.object({
  host: hostRecordSchema,
  version: z.string(),
  engine: z.object({ isConnected: z.boolean(), version: z.string() }),
  store: z.object({ isReachable: z.boolean(), error: z.string().optional() }),
  /** `leftMs`: how long the host's lease lasts without another renewal. */
  lease: z.object({ leftMs: z.number().optional(), isAlone: z.boolean(), fencedJobs: z.int() }),
  jobs: z.record(z.string(), z.int()),
  /** What keeps new jobs from this host, for people. */
  conditions: z.array(z.string()),
});
export type AgentStatus = z.output<typeof agentStatusSchema>;

/** What is left out stays. A tag of null goes; a drain of null ends. */
export const settingsChangeSchema = z.object({
  cordoned: z.boolean().optional(),
  drain: z
    .object({ deadlineMs: z.int().positive().optional(), maxParallel: z.int().positive().optional() })
    .nullable()
    .optional(),
  tags: z.record(z.string().regex(/^[a-zA-Z][\w.-]{0,62}$/), z.string().max(255).nullable()).optional(),
});
export type SettingsChange = z.output<typeof settingsChangeSchema>;

const knownHostSchema = z.object({
  id: z.string(),
  /** Absent while the host is away. */
  record: hostRecordSchema.optional(),
  settings: hostSettingsSchema,
});
export type KnownHost = z.output<typeof knownHostSchema>;

/** How to attach to a job: with input, with the output so far, and on a terminal of which size. */
export const attachQuerySchema = z.object({
  stdin: booleanFlag.optional(),
  logs: booleanFlag.optional(),
  columns: z.coerce.number().int().optional(),
  rows: z.coerce.number().int().optional(),
});

/** A program and its arguments, as JSON in a query. */
export const commandQuery = z.string().transform((text, context) => {
  try {
    return z.array(z.string()).min(1).parse(JSON.parse(text));
  } catch {
    context.addIssue({ code: 'custom', message: 'expected a program and its arguments as a JSON array of strings' });
    return z.NEVER;
  }
});

export const execQuerySchema = z.object({
  command: commandQuery,
  /** TERM of the client's terminal. */
  term: z.string().optional(),
  tty: booleanFlag.optional(),
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
    responseType: linesType,
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
  /** Frames of @flynn/kit/frames. The process ends with its client. */
  exec: defineRoute({
    method: 'GET',
    path: '/jobs/:job/exec',
    query: execQuerySchema,
    response: 'upgrade',
    summary: 'Run a program beside a running job, in its container',
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
  /** `job` is the assignment with its template and environment, `container` what the engine says. */
  inspect: defineRoute({
    method: 'GET',
    path: '/jobs/:job/inspect',
    response: z.object({ status: jobStatusSchema.optional(), job: z.unknown(), container: z.unknown() }),
    summary: 'All that is known of a job',
  }),
  jobStats: defineRoute({
    method: 'GET',
    path: '/jobs/:job/stats',
    response: jobUseSchema,
    summary: 'What a running job uses',
  }),
  stats: defineRoute({
    method: 'GET',
    path: '/stats',
    response: z.object({ host: hostUseSchema, jobs: z.array(jobUseSchema) }),
    summary: 'What the host and its running jobs use',
  }),
  status: defineRoute({
    method: 'GET',
    path: '/status',
    response: agentStatusSchema,
    summary: 'How the agent is, and what it can reach',
  }),
  image: defineRoute({
    method: 'GET',
    path: '/image',
    query: z.object({ name: z.union([z.string().min(1), z.array(z.string().min(1)).min(1).max(100)]) }),
    response: 'stream',
    responseType: archiveType,
    summary: 'Images of this host as one archive, for hosts that lack them; all of them or none',
  }),
  metrics: defineRoute({
    method: 'GET',
    path: '/metrics',
    response: 'stream',
    responseType: metricsType,
    summary: 'Figures for Prometheus',
  }),
  hosts: defineRoute({
    method: 'GET',
    path: '/hosts',
    response: z.array(knownHostSchema),
    summary: 'The hosts of the cluster, also those that are away; needs the store',
  }),
  changeSettings: defineRoute({
    method: 'PATCH',
    path: '/hosts/:host/settings',
    body: settingsChangeSchema,
    response: hostSettingsSchema,
    summary: 'Cordon, drain or tag a host; needs the store',
  }),
} as const;
