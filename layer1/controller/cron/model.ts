/** Lines of cron and their runs as people see them. Times are ISO 8601. */
import { z } from 'zod';
import { cronEntrySchema } from '../apps/app-json.ts';

const id = z.string();
const time = z.string();

export const cronRunSchema = z.object({
  /** The tick it ran for; without one somebody asked for it. */
  tick: time.optional(),
  /** What it was asked to run as: of a run that was skipped there is nothing. */
  workloadId: id.optional(),
  /** Its job, once it has a place: what `flynn log -j` takes. */
  jobId: id.optional(),
  /** `skipped`: the run before was still going on. */
  state: z.enum(['running', 'done', 'failed', 'skipped']),
  /** Of ticks that were skipped one after the other, of which this is the last: how many, where it is more than one. */
  skips: z.int().optional(),
  startedAt: time,
  /** When it was told to stop because the next one began: it runs until its job has ended. */
  replacedAt: time.optional(),
  endedAt: time.optional(),
  exitCode: z.int().optional(),
  error: z.string().optional(),
});
export type CronRun = z.output<typeof cronRunSchema>;

export const cronSchema = cronEntrySchema.extend({
  /** The same as long as schedule and command are, through all releases. */
  id,
  appId: id,
  isPaused: z.boolean(),
  nextAt: time.optional(),
  /** Newest first. */
  runs: z.array(cronRunSchema),
});
export type Cron = z.output<typeof cronSchema>;
