/** The audit trail, for admins of the cluster, admins of an app, and everybody about themselves. */
import { integer } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { auditEntrySchema } from './model.ts';

export const audit = {
  list: defineRoute({
    method: 'GET',
    path: '/audit',
    access: 'anybody',
    query: z.object({
      /** An app's name or id; one that is deleted is still known here. */
      app: z.string().optional(),
      user: z.string().optional(),
      /** ISO 8601. */
      since: z.iso.datetime().optional(),
      limit: integer.pipe(z.int().min(1).max(1_000)).default(100),
      /** The last id of the page before. */
      before: z.string().optional(),
    }),
    response: z.array(auditEntrySchema),
    summary: 'Who changed what, newest first; kept for 90 days, 20,000 at most',
  }),
} as const;
