/** The API of what runs on a schedule. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { cronSchema } from './model.ts';

export const crons = {
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/cron',
    access: 'app viewer',
    response: z.array(cronSchema),
    summary: "What the app's live release wants run on a schedule, with the last runs",
  }),
  run: defineRoute({
    method: 'POST',
    path: '/apps/:app/cron/:cron/run',
    access: 'app developer',
    response: cronSchema,
    summary: 'Run it now, whatever its schedule',
  }),
  pause: defineRoute({
    method: 'POST',
    path: '/apps/:app/cron/:cron/pause',
    access: 'app developer',
    response: cronSchema,
    summary: 'Let its ticks pass; what runs goes on',
  }),
  resume: defineRoute({
    method: 'POST',
    path: '/apps/:app/cron/:cron/resume',
    access: 'app developer',
    response: cronSchema,
    summary: 'Run it at its ticks again; those that passed are not made up for',
  }),
} as const;
