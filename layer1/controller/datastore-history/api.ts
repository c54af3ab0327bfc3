/** The API of datastores' histories. Who sees the resource sees them; to change them is for developers of all its apps. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { datastoreHistorySchema, maxHistoryDays } from './model.ts';

export const datastoreHistories = {
  get: defineRoute({
    method: 'GET',
    path: '/resources/:resource/history',
    access: 'anybody',
    response: datastoreHistorySchema,
    summary: 'From and until when one can go back to any moment of the database',
  }),
  set: defineRoute({
    method: 'PUT',
    path: '/resources/:resource/history',
    access: 'anybody',
    body: z.object({
      /** 0: nothing is kept, and what is kept goes. */
      days: z.int().min(0).max(maxHistoryDays),
    }),
    response: datastoreHistorySchema,
    summary: 'Keep each moment of so many days',
  }),
  collect: defineRoute({
    method: 'POST',
    path: '/resources/:resource/history/collect',
    access: 'anybody',
    response: datastoreHistorySchema,
    summary: 'Collect what was written now, and not within the minute; how far it is is told with its history',
  }),
} as const;
