/** The controller's HTTP API for runners as such; what they do with operations is in api.ts beside it. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { labelsSchema, runnerSchema } from '../model.ts';

export const runners = {
  /** Idempotent. The first time it sets the runner's token: later only who has it may act under this id. */
  register: defineRoute({
    method: 'PUT',
    path: '/runners/:runner',
    body: z.object({
      token: z.string().min(16),
      /** Of the process. What an earlier one held under this id ends, for it knows nothing of it. */
      session: z.string().min(1),
      version: z.string(),
      labels: labelsSchema.default({}),
      slots: z.int().min(1).max(64).default(1),
      isByIdOnly: z.boolean().default(false),
    }),
    response: runnerSchema,
    summary: 'Say what runner it is; one that is not of the platform is adopted before it gets work',
  }),
  add: defineRoute({
    method: 'POST',
    path: '/runners/:runner',
    body: z.object({ labels: labelsSchema.default({}), isByIdOnly: z.boolean().default(false) }),
    response: runnerSchema.extend({ token: z.string() }),
    summary: 'Let a runner outside of the cluster in, with the token that it is to have: it is told once',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/runners',
    access: 'cluster viewer',
    response: z.array(runnerSchema),
    summary: 'Runners, by id',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/runners/:runner',
    access: 'cluster viewer',
    response: runnerSchema,
    summary: 'One runner',
  }),
  adopt: defineRoute({
    method: 'POST',
    path: '/runners/:runner/adopt',
    response: runnerSchema,
    summary: 'Let a runner have work',
  }),
  reject: defineRoute({
    method: 'POST',
    path: '/runners/:runner/reject',
    response: runnerSchema,
    summary: 'Give a runner no more work; what it runs it may end',
  }),
  forget: defineRoute({
    method: 'DELETE',
    path: '/runners/:runner',
    response: 'empty',
    summary: 'Forget a runner; it may register anew',
  }),
} as const;
