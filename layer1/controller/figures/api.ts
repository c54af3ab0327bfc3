/** The API of what apps take and do. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { figuresSchema, latestFiguresSchema } from './model.ts';

export const figures = {
  ofApp: defineRoute({
    method: 'GET',
    path: '/apps/:app/figures',
    access: 'app viewer',
    query: z.object({
      /** Only what is later than this moment; at most the last hour. */
      since: z.iso.datetime({ offset: true }).optional(),
    }),
    response: figuresSchema,
    summary:
      'Processors, memory, requests and response times of the last hour, every 15 s, as this controller saw them',
  }),
  latest: defineRoute({
    method: 'GET',
    path: '/figures',
    access: 'anybody',
    query: z.object({
      /** Only of this one, by name or id. */
      app: z.string().optional(),
    }),
    response: latestFiguresSchema,
    summary: 'The newest of these, of all apps that the caller may see',
  }),
} as const;
