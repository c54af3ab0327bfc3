/** The blob store's HTTP API: content-addressed, immutable blobs, and names that point to them. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const digestSchema = z.string().regex(/^sha256:[0-9a-f]{64}$/);
export const blobSchema = z.object({ digest: digestSchema, sizeBytes: z.int().nonnegative() });
export type Blob = z.output<typeof blobSchema>;

export const routes = {
  /** Takes the bytes and says their digest. The same bytes again are the same blob. */
  put: defineRoute({
    method: 'POST',
    path: '/blobs',
    query: z.object({ digest: digestSchema.optional() }),
    body: 'stream',
    response: blobSchema,
    summary: 'Store bytes; refused with `invalid` when ?digest= is given and wrong',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/blobs/:digest',
    response: 'stream',
    summary: 'The bytes of a blob, with content-length',
  }),
  stat: defineRoute({
    method: 'GET',
    path: '/blobs/:digest/stat',
    response: blobSchema,
    summary: 'Whether a blob is there, and how large',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/blobs/:digest',
    response: 'empty',
    summary: 'Delete a blob; one that is not there is fine',
  }),
  /** Names are mutable pointers, e.g. `cache/<app>`; letters, digits, `.`, `_`, `-` and `/`. */
  putName: defineRoute({
    method: 'PUT',
    path: '/names/*name',
    body: z.object({ digest: digestSchema }),
    response: 'empty',
    summary: 'Point a name to a blob that is there',
  }),
  getName: defineRoute({
    method: 'GET',
    path: '/names/*name',
    response: blobSchema,
    summary: 'The blob a name points to',
  }),
  removeName: defineRoute({ method: 'DELETE', path: '/names/*name', response: 'empty', summary: 'Forget a name' }),
} as const;
