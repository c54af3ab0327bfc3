/** The API of what apps keep on hosts: it outlives jobs and releases, and the app, until somebody removes it. */
import { booleanFlag } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

const volumeViewSchema = z.object({
  /** Of this volume on this host, for as long as it is there: 12 hexadecimal digits. */
  id: z.string(),
  /** As the app calls it. */
  name: z.string(),
  appId: z.string(),
  /** Of an app that is gone the last one known; absent where that is not known. */
  appName: z.string().optional(),
  isAppGone: z.boolean(),
  /** The process type it is of. */
  type: z.string(),
  hostId: z.string(),
  createdAt: z.string(),
  /** What is in it, for who asks for sizes; absent while its host measures it for the first time, or cannot. */
  bytes: z.number().optional(),
  /** The jobs that have it, or are to have it: while there is one it is not removed. */
  jobs: z.array(z.string()),
});
export type VolumeView = z.output<typeof volumeViewSchema>;

const unaskedHostSchema = z.object({ hostId: z.string(), reason: z.string() });

export const volumesSchema = z.object({
  volumes: z.array(volumeViewSchema),
  /** What is on these is not in the list, and may be there all the same. */
  unasked: z.array(unaskedHostSchema),
});
export type Volumes = z.output<typeof volumesSchema>;

export const volumes = {
  list: defineRoute({
    method: 'GET',
    path: '/volumes',
    access: 'anybody',
    query: z.object({ app: z.string().optional(), sizes: booleanFlag.optional() }),
    response: volumesSchema,
    summary: 'Volumes of the apps that the caller may see; for admins those of apps that are gone, too',
  }),
  removeOfApp: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/volumes/:volume',
    access: 'app admin',
    response: 'empty',
    summary: 'Remove a volume of an app with all that is in it; one that a job has is a conflict',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/volumes/:volume',
    response: 'empty',
    summary: 'The same of whichever app, also of one that is gone',
  }),
} as const;
