/** The API of backups. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const backups = {
  /** A POST, for it is in the audit trail: who has the answer has all keys of the cluster. */
  download: defineRoute({
    method: 'POST',
    path: '/backups/download',
    body: z.object({ mayMiss: z.boolean().default(false) }),
    response: 'stream',
    summary: 'Everything people made on the cluster, its keys included, as one archive',
  }),
} as const;
