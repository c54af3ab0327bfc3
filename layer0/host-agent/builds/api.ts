/** The part of the agent's API that builds images: for jobs of the platform on this host, whose limits the build keeps. */
import { errorCodes } from '@flynn/kit/errors';
import { defineRoute, linesType } from '@flynn/kit/routes';
import { imageSchema } from '@flynn/scheduler/job-template';
import { z } from 'zod';

/** A line as it is said; at the end the image's name, or why there is none. */
export const buildEventSchema = z.union([
  z.object({ line: z.string() }),
  z.object({ image: z.string() }),
  z.object({ error: z.object({ code: z.enum(errorCodes), message: z.string() }) }),
]);
export type BuildEvent = z.output<typeof buildEventSchema>;

export const buildRoutes = {
  /** ndjson of BuildEvent. The build ends with its client. */
  build: defineRoute({
    method: 'POST',
    path: '/builds/:build',
    body: z.object({
      /** A blob: the context as a tar archive. */
      contextDigest: z.string(),
      dockerfile: z.string().min(1),
      /** What its stages begin with. Builders of versions before do not say it. */
      bases: z.array(z.object({ name: z.string().min(1), platform: z.string().min(1).optional() })).default([]),
      /** Builds with the same one find the steps of the one before done. */
      cache: z.string().regex(/^[A-Za-z0-9_.]{1,100}$/),
      args: z.record(z.string(), z.string()).default({}),
      limits: z.object({
        memoryBytes: z.int().positive(),
        cpuMillis: z.int().nonnegative(),
        pids: z.int().positive(),
        diskBytes: z.int().positive(),
      }),
    }),
    response: 'stream',
    responseType: linesType,
    summary: 'Build an image from a Dockerfile',
  }),
  ensureImage: defineRoute({
    method: 'POST',
    path: '/images',
    body: z.object({ image: imageSchema }),
    response: z.object({
      name: z.string(),
      /** What its ENV says; agents of versions before say nothing of it. */
      env: z.record(z.string(), z.string()).optional(),
    }),
    summary: 'Have an image on this host, and what it is called here',
  }),
} as const;
