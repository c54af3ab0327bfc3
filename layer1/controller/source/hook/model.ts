/** What people see of a hook: where a git service tells of pushes, and what came in there. Never its secret. */
import { z } from 'zod';

const time = z.string();

/** Of a request that showed the secret. */
export const hookOutcomes = ['looks', 'ignored', 'ping'] as const;

export const hookSchema = z.object({
  /** What is pasted into the git service. */
  url: z.string(),
  /** The last request with the secret, and what became of it. */
  last: z.object({ at: time, outcome: z.enum(hookOutcomes), what: z.string() }).optional(),
  /** The last one without it: at most one in a minute is written down. */
  refused: z.object({ at: time, why: z.string(), from: z.string() }).optional(),
});
export type Hook = z.output<typeof hookSchema>;
