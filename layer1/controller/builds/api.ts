/** The API of what an app's builds may take. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

/** In bytes, or milliseconds. */
const limit = z.object({
  value: z.int(),
  /** How far the app may raise it. */
  most: z.int(),
  /** Whether the app asked for it; else it is the cluster's. */
  isOwn: z.boolean(),
});
const limits = z.object({ memory: limit, time: limit, disk: limit });
/** `2GB`, `20m`; null: as the cluster has it. */
const wish = z.string().max(40).nullable().optional();

export const builds = {
  limits: defineRoute({
    method: 'GET',
    path: '/apps/:app/build-limits',
    access: 'app viewer',
    response: limits,
    summary: 'What a build of the app may take, and how far that may be raised',
  }),
  setLimits: defineRoute({
    method: 'PATCH',
    path: '/apps/:app/build-limits',
    access: 'app developer',
    body: z.object({ memory: wish, time: wish, disk: wish }),
    response: limits,
    summary: 'Change what a build of the app may take, within what the cluster allows',
  }),
} as const;
