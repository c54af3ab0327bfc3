/** The API of what slugs consist of, for moving apps between clusters: only the platform reaches the blob store itself. */
import { digestSchema, blobSchema } from '@flynn/blobstore/api';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

const digestList = /^sha256:[0-9a-f]{64}(?:,sha256:[0-9a-f]{64}){0,127}$/;

export const layers = {
  get: defineRoute({
    method: 'GET',
    path: '/artifacts/:artifact/layers/:digest',
    access: 'developer of some app',
    response: 'stream',
    summary: 'The bytes of a layer of a slug, or of the record of its build',
  }),
  stat: defineRoute({
    method: 'GET',
    path: '/layers/:digest',
    access: 'developer of some app',
    response: blobSchema,
    summary:
      'Whether a layer need not be sent: the caller brought it today, or an app of theirs has it; and how large it is',
  }),
  put: defineRoute({
    method: 'POST',
    path: '/layers',
    access: 'developer of some app',
    query: z.object({ digest: digestSchema }),
    body: 'stream',
    response: blobSchema,
    summary:
      'Store a layer, for an artifact that is registered within a day; other bytes than the digest says are refused',
  }),
  /** For runners and builders: `access` says nothing. */
  missing: defineRoute({
    method: 'GET',
    path: '/operations/:operation/missing-layers',
    /** Up to 128, with commas in between. */
    query: z.object({ digests: z.string().regex(digestList) }),
    response: z.object({ missing: z.array(z.string()) }),
    summary:
      'Which of these layers an operation may not be made of: who asked for it and its app have no right to them',
  }),
} as const;
