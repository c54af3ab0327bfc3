/** The API of where log lines are sent as well. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { drainSchema } from '../model.ts';

export const drains = {
  create: defineRoute({
    method: 'POST',
    path: '/drains',
    access: 'anybody',
    body: z.object({
      url: z.string(),
      app: z.string().optional(),
      /** Whom to trust behind a TLS address, as PEM; else whom everybody trusts. */
      ca: z.string().optional(),
    }),
    response: drainSchema,
    summary: 'Send the lines of an app, or of all apps, elsewhere as well, from now on',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/drains',
    access: 'anybody',
    query: z.object({ app: z.string().optional() }),
    response: z.array(drainSchema),
    summary: 'Drains and how far they are; with app= those that get its lines',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/drains/:drain',
    access: 'anybody',
    response: 'empty',
    summary: 'End a drain',
  }),
} as const;
