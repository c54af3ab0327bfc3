/** The API of apps that follow a branch of a repository elsewhere. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { branchName, sourceSchema } from './model.ts';

export const sources = {
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app/source',
    access: 'app viewer',
    response: sourceSchema,
    summary: 'The repository and branch the app follows, and how that goes',
  }),
  put: defineRoute({
    method: 'PUT',
    path: '/apps/:app/source',
    access: 'app developer',
    body: z.object({
      /** https://, http://, ssh:// or USER@HOST:PATH, without a password. */
      url: z.string().max(2_000),
      branch: branchName.default('main'),
      everyMs: z
        .int()
        .min(15_000)
        .max(7 * 86_400_000)
        .default(60_000),
    }),
    response: sourceSchema,
    summary: 'Follow a branch: each new commit of it is built, released and deployed like a push',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/source',
    access: 'app developer',
    response: 'empty',
    summary: 'Follow it no more; what runs stays',
  }),
  poll: defineRoute({
    method: 'POST',
    path: '/apps/:app/source/poll',
    access: 'app developer',
    query: z.object({
      /** Takes the commit though it was taken before. */
      again: z.enum(['true', 'false']).optional(),
    }),
    response: sourceSchema,
    summary: 'Look for a new commit now, for who is told of pushes',
  }),
} as const;
