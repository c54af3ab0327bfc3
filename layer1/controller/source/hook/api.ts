/** The API of hooks: where git services tell that something was pushed to the branch an app follows. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { signingSecretSchema } from '../../notifications/signature.ts';
import { hookOutcomes, hookSchema } from './model.ts';

export const hooks = {
  make: defineRoute({
    method: 'POST',
    path: '/apps/:app/source/hook',
    access: 'app developer',
    body: z.object({
      /** Another secret for the one there is, which is good no more. */
      isRotation: z.boolean().default(false),
      /** One that the git service made; left out, it is made here. */
      secret: signingSecretSchema.optional(),
    }),
    response: z.object({ hook: hookSchema, secret: signingSecretSchema }),
    summary: 'Where a git service tells of pushes, and the secret that it proves itself by, which is told once',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/source/hook',
    access: 'app developer',
    response: 'empty',
    summary: 'Take no hooks any more; the repository is looked at now and then as before',
  }),
  /** For git services. `unauthenticated` for all that is not signed with the secret, and for hooks that there are not. */
  receive: defineRoute({
    method: 'POST',
    path: '/hooks/:hook',
    access: 'open',
    body: 'stream',
    bodyTypes: ['application/json', 'application/x-www-form-urlencoded'],
    response: z.object({ outcome: z.enum(hookOutcomes), message: z.string() }),
    summary: 'A push webhook of a git service: the app that follows the branch looks for it at once',
  }),
} as const;
