/** What an app follows: a branch of a git repository, elsewhere. */
import { z } from 'zod';
import { hookSchema } from './hook/model.ts';

const time = z.string();

/** As git takes it: nothing that could be an option, a range or a pattern. */
export const branchName = z
  .string()
  .max(200)
  .regex(
    /^(?![-./])(?!.*(?:\.\.|\/\/|\/\.|@\{|\.lock$))[\w./+@#-]*[\w+@#-]$/,
    'expected the name of a branch, like main or release/2.x',
  );

export const sourceSchema = z.object({
  appId: z.string(),
  url: z.string(),
  branch: z.string(),
  /** How often it is looked at while nothing goes wrong. */
  everyMs: z.int(),
  /** The newest commit that was taken from it. */
  commit: z.string().optional(),
  /** When it was last looked at, and when it will be next. */
  polledAt: time.optional(),
  nextAt: time.optional(),
  /** A look that is under way. */
  pollId: z.string().optional(),
  /** Somebody wants it looked at now: one that is under way may have begun before, and another follows it. */
  isWanted: z.boolean().optional(),
  /** Looks that failed in a row, with why the last one did: they come ever more seldom. */
  failures: z.int(),
  error: z.string().optional(),
  /** What became of that commit: the operation it is at, or ended with. */
  push: z
    .object({ operationId: z.string(), kind: z.string(), state: z.string(), error: z.string().optional() })
    .optional(),
  /** Where pushes are told of, so that it is looked at at once. */
  hook: hookSchema.optional(),
});
export type Source = z.output<typeof sourceSchema>;
