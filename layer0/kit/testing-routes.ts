/** Routes that tests of server and client are made of. */
import { z } from 'zod';
import { booleanFlag } from './config.ts';
import { handle } from './http-server.ts';
import { defineRoute } from './routes.ts';

const jobSchema = z.object({ id: z.string(), app: z.string(), limit: z.number(), follow: z.boolean().optional() });
export const jobRoute = defineRoute({
  method: 'GET',
  path: '/apps/:app/jobs/:job',
  query: z.object({ limit: z.coerce.number().int().default(10), follow: booleanFlag.optional() }),
  response: jobSchema,
  summary: 'one job',
});
export const createRoute = defineRoute({
  method: 'POST',
  path: '/apps',
  body: z.object({ name: z.string() }),
  response: z.object({ name: z.string() }),
  summary: 'make an app',
});
export const deleteRoute = defineRoute({
  method: 'DELETE',
  path: '/apps/:app',
  response: 'empty',
  summary: 'delete an app',
});

export const echoJob = handle(jobRoute, async ({ params, query }) => ({
  id: params.job,
  app: params.app,
  limit: query.limit,
  ...(query.follow === undefined ? {} : { follow: query.follow }),
}));

export const deadline = { deadlineMs: 60_000, intervalMs: 5 };
