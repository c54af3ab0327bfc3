/** What an app's process type is scaled by, and how that goes, as people see it. Times are ISO 8601. */
import { z } from 'zod';

const time = z.string();
/** More than this of one type nobody wants by accident. */
const mostJobs = 1_000;

/** What can be looked at: each is a target for a job, and there are as many jobs as it takes for none to be above any. */
export const signals = ['cpuPercent', 'requestsPerSecond', 'requestsInFlight'] as const;
export type Signal = (typeof signals)[number];

const targets = {
  /** Of what the type's `cpu` limit says, on average over its jobs: 100 is all of it. */
  cpuPercent: z.number().min(1).max(1_000),
  /** That routers had answered by a job, each second. */
  requestsPerSecond: z.number().min(0.01).max(1_000_000),
  /** That a job is at at once; connections of TCP routes and WebSockets are some. */
  requestsInFlight: z.number().min(0.01).max(1_000_000),
};
const times = {
  /** Figures are averages over the last so long. */
  windowMs: z.int().min(10_000).max(3_600_000),
  /** There are fewer jobs once fewer would have done for so long. */
  downAfterMs: z.int().min(0).max(86_400_000),
};

export const defaultTimes = { windowMs: 60_000, downAfterMs: 300_000 } as const;

export const settingsSchema = z.strictObject({
  min: z.int().min(1).max(mostJobs).default(1),
  max: z.int().min(1).max(mostJobs),
  cpuPercent: targets.cpuPercent.optional(),
  requestsPerSecond: targets.requestsPerSecond.optional(),
  requestsInFlight: targets.requestsInFlight.optional(),
  windowMs: times.windowMs.default(defaultTimes.windowMs),
  downAfterMs: times.downAfterMs.default(defaultTimes.downAfterMs),
});
export type Settings = z.output<typeof settingsSchema>;

/** What is left out stays, or is as without; null takes a target back. */
export const settingsChangeSchema = z.strictObject({
  min: z.int().min(1).max(mostJobs).optional(),
  max: z.int().min(1).max(mostJobs).optional(),
  cpuPercent: targets.cpuPercent.nullable().optional(),
  requestsPerSecond: targets.requestsPerSecond.nullable().optional(),
  requestsInFlight: targets.requestsInFlight.nullable().optional(),
  windowMs: times.windowMs.optional(),
  downAfterMs: times.downAfterMs.optional(),
});
export type SettingsChange = z.output<typeof settingsChangeSchema>;

/**
 * Why the count stays whatever there is to do. `off`: its count is 0. `deploying`: nobody scales until that is through.
 * `measuring`: half a window has not been seen yet. `blind`: what was asked did not answer, or what it told is not enough to have
 * fewer. `full`: jobs it has wait for a host. `absent`: the live release has no such type, or one that is not scaled so.
 */
export const holds = ['off', 'deploying', 'measuring', 'blind', 'full', 'absent'] as const;

export const statusSchema = z.object({
  held: z
    .object({
      reason: z.enum(holds),
      why: z.string(),
      since: time,
      /** When why was told last, if not at once. */
      at: time.optional(),
    })
    .optional(),
  /** What there was to do, and how many jobs it asks for whatever the range; told anew each minute, if it is another. */
  seen: z.object({ at: time, wanted: z.int(), figures: z.string() }).optional(),
  /** The last change of the count. */
  last: z.object({ at: time, from: z.int(), to: z.int(), why: z.string() }).optional(),
  /** How many there were. */
  changes: z.int(),
});
export type Status = z.output<typeof statusSchema>;

export const autoscaleSchema = settingsSchema.extend({
  appId: z.string(),
  type: z.string(),
  ...statusSchema.shape,
});
export type Autoscale = z.output<typeof autoscaleSchema>;
