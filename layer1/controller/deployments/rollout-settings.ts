/** How an app's releases take each other's place, as people set it. */
import { z } from 'zod';

export const strategies = ['in-batches', 'one-by-one', 'one-down-one-up', 'all-at-once', 'canary'] as const;
const rolloutFields = z.object({
  strategy: z.enum(strategies),
  /** in-batches: so many of each type at a time; without it a quarter, at least four. */
  batchSize: z.int().min(1).max(10_000).optional(),
  /** canary: so many new jobs of each type beside all old ones, until somebody promotes them. */
  canaries: z.int().min(1).max(10_000),
  /** canary: promoted by itself once all of them have been healthy for so long; without it by people alone. */
  autoPromoteMs: z.int().min(1_000).max(604_800_000).optional(),
  /** A new job counts once it has been healthy for so long. */
  minHealthyMs: z.int().min(0).max(3_600_000),
  /** The whole must be through by then, time on hold not counted; without it only progress is asked for. */
  deadlineMs: z.int().min(1_000).max(86_400_000).optional(),
});
/** How an app's releases take each other's place. */
export const rolloutSchema = rolloutFields.extend({
  strategy: rolloutFields.shape.strategy.default('in-batches'),
  canaries: rolloutFields.shape.canaries.default(1),
  minHealthyMs: rolloutFields.shape.minHealthyMs.default(0),
});
export type Rollout = z.output<typeof rolloutSchema>;
/** What is left out stays; null takes a limit away. */
export const rolloutChangeSchema = rolloutFields
  .extend({
    batchSize: rolloutFields.shape.batchSize.nullable(),
    autoPromoteMs: rolloutFields.shape.autoPromoteMs.nullable(),
    deadlineMs: rolloutFields.shape.deadlineMs.nullable(),
  })
  .partial();
export type RolloutChange = z.output<typeof rolloutChangeSchema>;
