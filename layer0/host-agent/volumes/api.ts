/** The part of the agent's API about what jobs keep on this host, also when there are none of them any more. */
import { booleanFlag } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const hostVolumeSchema = z.object({
  /** As templates name it. */
  name: z.string(),
  /** Of the job it was made for, where that is known. */
  meta: z.record(z.string(), z.string()),
  createdAtMs: z.number(),
  /** What is in it, for who asks for sizes; absent while it is measured for the first time, or where that cannot be. */
  bytes: z.number().optional(),
  /** Ids of the jobs that are to run with it here, or still do. */
  jobs: z.array(z.string()),
});
export type HostVolume = z.output<typeof hostVolumeSchema>;

export const volumeRoutes = {
  list: defineRoute({
    method: 'GET',
    path: '/volumes',
    query: z.object({ sizes: booleanFlag.optional() }),
    response: z.array(hostVolumeSchema),
    summary: 'What jobs keep on this host, by name; with sizes within some seconds',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/volumes/:volume',
    response: 'empty',
    summary: 'Remove a volume with all that is in it, unless a job has it; one that is not there is fine',
  }),
} as const;
