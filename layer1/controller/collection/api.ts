/** The API of collecting what nothing refers to. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const collections = {
  run: defineRoute({
    method: 'POST',
    path: '/collections',
    response: z.object({ releases: z.int(), blobs: z.int(), bytes: z.int(), names: z.int() }),
    summary: 'Collect now what is collected every half an hour; answers what went',
  }),
  forget: defineRoute({
    method: 'POST',
    path: '/collections/unreadable',
    body: z.object({ key: z.string().min(1).max(1_000) }),
    response: 'empty',
    summary:
      'Delete for good the record of that key, which cannot be read and so keeps what nothing refers to, or what it belongs to from being deleted',
  }),
} as const;
