/** What an app takes and does, as figures over the last hour. Times are ISO 8601. */
import { z } from 'zod';

const time = z.string();

/** Of a process type, all its jobs together. */
export const typeFields = ['jobs', 'cpu', 'memoryBytes', 'memoryLimitBytes'] as const;
export type TypeField = (typeof typeFields)[number];

/** Of all of an app's routes, at all routers. */
export const requestFields = [
  'perSecond',
  'clientErrorsPerSecond',
  'serverErrorsPerSecond',
  'inFlight',
  'p50Ms',
  'p95Ms',
  'p99Ms',
] as const;
export type RequestField = (typeof requestFields)[number];

/** One for each point; null where it is not known. */
const column = z.array(z.number().nullable());

const columns = {
  type: {
    /** That run. */
    jobs: column,
    /** Processors that they were busy with: 0.5 is half of one. */
    cpu: column,
    memoryBytes: column,
    memoryLimitBytes: column,
  } satisfies Record<TypeField, z.ZodType>,
  requests: {
    /** That ended; of TCP routes, connections. */
    perSecond: column,
    /** Of these, answered with a status of 400 to 499, by the router itself too … */
    clientErrorsPerSecond: column,
    /** … and of 500 to 599. */
    serverErrorsPerSecond: column,
    /** Under way at that moment. */
    inFlight: column,
    /** What half of the requests of a step did not take longer than, and 95 and 99 of a hundred; null without any. */
    p50Ms: column,
    p95Ms: column,
    p99Ms: column,
  } satisfies Record<RequestField, z.ZodType>,
};

export const figuresSchema = z.object({
  /** The moment of the first point. Each tells of the step that ends with it. */
  from: time,
  stepMs: z.int(),
  points: z.int(),
  /** When whoever answers began to look: before that nothing is known. Left out before the first point. */
  knownSince: time.optional(),
  /** There is no room for more apps: it has none. */
  isLeftOut: z.boolean(),
  types: z.array(z.object({ type: z.string(), ...columns.type })),
  /** Left out of an app that no request was seen for. */
  requests: z.object(columns.requests).optional(),
});
export type Figures = z.output<typeof figuresSchema>;

const latest = z.number().nullable();

const latestTypeSchema = z.object({
  type: z.string(),
  jobs: latest,
  cpu: latest,
  memoryBytes: latest,
  memoryLimitBytes: latest,
} satisfies Record<TypeField | 'type', z.ZodType>);

const latestRequestsSchema = z.object({
  perSecond: latest,
  clientErrorsPerSecond: latest,
  serverErrorsPerSecond: latest,
  inFlight: latest,
  p50Ms: latest,
  p95Ms: latest,
  p99Ms: latest,
} satisfies Record<RequestField, z.ZodType>);

export const latestFiguresSchema = z.object({
  /** The moment of the last point; left out before the first. */
  at: time.optional(),
  apps: z.array(
    z.object({
      appId: z.string(),
      name: z.string(),
      isSystem: z.boolean(),
      isLeftOut: z.boolean(),
      types: z.array(latestTypeSchema),
      requests: latestRequestsSchema.optional(),
    }),
  ),
});
export type LatestFigures = z.output<typeof latestFiguresSchema>;
