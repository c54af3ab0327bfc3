/** One look at a workload: why it is due, how it ended, and what it led to. The keys are the cell's. */
import { z } from 'zod';

export const evaluationCauses = [
  'workload',
  'removal',
  'job_ended',
  'host_joined',
  'host_changed',
  'host_lost',
  'drain',
  'preemption',
  'capacity',
  'health',
  'retry',
  'follow_up',
  'rebalance',
  'repair',
] as const;

/** `pending → complete | failed | cancelled | blocked`; `blocked → pending | cancelled`. What ended stays readable for an hour. */
export const evaluationStates = ['pending', 'blocked', 'complete', 'failed', 'cancelled'] as const;

export const evaluationSchema = z.object({
  id: z.string(),
  workloadId: z.string(),
  cause: z.enum(evaluationCauses),
  state: z.enum(evaluationStates),
  priority: z.int().min(0).max(100).default(50),
  /** Blocked: what fits nowhere and why: "37 placed, 63 waiting: memory (3 hosts full)". Failed, cancelled: why. */
  reason: z.string().optional(),
  /** Blocked: hosts that failed each check, by the check's name. */
  obstacles: z.record(z.string(), z.int()).optional(),
  placed: z.int().optional(),
  waiting: z.int().optional(),
  /** Not looked at before then. */
  waitUntil: z.number().optional(),
  /** The one this follows from, the one that follows from this, the blocked one that waits for what this could not place. */
  previousId: z.string().optional(),
  nextId: z.string().optional(),
  blockedId: z.string().optional(),
  createdAt: z.number(),
  updatedAt: z.number().optional(),
});
export type Evaluation = z.output<typeof evaluationSchema>;
