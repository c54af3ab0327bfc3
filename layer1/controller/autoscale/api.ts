/** The API of what scales apps by itself. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { autoscaleSchema, settingsChangeSchema } from './model.ts';

export const autoscales = {
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/autoscale',
    access: 'app viewer',
    response: z.array(autoscaleSchema),
    summary: 'Which of its process types are scaled by themselves, by what, and how that goes',
  }),
  set: defineRoute({
    method: 'PATCH',
    path: '/apps/:app/autoscale/:type',
    access: 'app developer',
    body: settingsChangeSchema,
    response: autoscaleSchema,
    summary: 'Have a type scaled by itself, or by something else; what is left out stays, a target of null goes',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/autoscale/:type',
    access: 'app developer',
    response: 'empty',
    summary: 'Leave its count to people; it stays as it is',
  }),
} as const;
