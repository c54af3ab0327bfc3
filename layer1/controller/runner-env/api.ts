/** For runners: the variables that they have besides their own. People have the kind RunnerEnv of the generic API. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { envSchema } from '../processes/env.ts';

export const runnerEnv = {
  /**
   * With `known` it waits up to 25 s for others than those of that version; the same again means: ask again. Without, what
   * was set before the call is in the answer.
   */
  watch: defineRoute({
    method: 'POST',
    path: '/runners/:runner/env',
    body: z.object({
      /** Of the runner, as it registered with. */
      token: z.string().default(''),
      known: z.string().optional(),
    }),
    response: z.object({ version: z.string(), env: envSchema }),
    summary: 'The variables this runner has besides its own, as soon as they are others than it knows',
  }),
} as const;
