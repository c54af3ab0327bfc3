/** A notification as it is kept: who is told, of what, and what waits to be sent there. */
import { severities } from '@flynn/host-agent/doctor/finding';
import { holds } from '@flynn/resource/access';
import { defineType } from '@flynn/resource/type';
import type { ResourceOf } from '@flynn/resource/type';
import { z } from 'zod';
import { formats } from './formats.ts';
import { emptyQueue, queueSchema } from './queue.ts';
import { signingSecretSchema } from './signature.ts';

export const heartbeatMinutes = { min: 1, max: 24 * 60, default: 5 } as const;

export const notificationType = defineType({
  name: 'notification',
  version: 1,
  spec: z.object({
    name: z.string(),
    appId: z.string().optional(),
    url: z.string(),
    format: z.enum(formats),
    /** Topics; such as a later version had are no error, and nothing is sent for them. */
    on: z.array(z.string()),
    severity: z.enum(severities),
    everyMinutes: z.int().min(heartbeatMinutes.min).max(heartbeatMinutes.max),
    secret: signingSecretSchema,
    /** It may lead into the cluster's own networks: an admin of the cluster said so. */
    isInside: z.boolean().default(false),
  }),
  status: queueSchema,
  initialStatus: () => ({ waiting: [...emptyQueue.waiting], log: [...emptyQueue.log] }),
  nameField: 'name',
  nameRule: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a notification is named in lower-case letters, digits and dashes'),
  immutable: ['appId'],
  // Those of the cluster are its admins'.
  authorise: {
    read: (asking, { owner }) => owner !== undefined && holds(asking, 'developer', owner),
    list: () => true,
    write: (asking, owner) => owner !== undefined && holds(asking, 'developer', owner),
  },
});
export type NotificationResource = ResourceOf<typeof notificationType>;
export type NotificationSpec = NotificationResource['spec'];
