/** The blob store's HTTP API: content-addressed, immutable blobs, and names that point to them. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const digestSchema = z.string().regex(/^sha256:[0-9a-f]{64}$/);
export const blobSchema = z.object({ digest: digestSchema, sizeBytes: z.int().nonnegative() });
export type Blob = z.output<typeof blobSchema>;

export const pageQuery = z.object({
  after: z.string().default(''),
  limit: z.coerce.number().int().min(1).max(10_000).default(1_000),
});
/** `usedAt`: milliseconds since the epoch when it was last put, named or asked after. */
export const listedBlobSchema = blobSchema.extend({ usedAt: z.number() });
export type ListedBlob = z.output<typeof listedBlobSchema>;
export const listedNameSchema = z.object({ name: z.string(), digest: digestSchema, changedAt: z.number() });
export type ListedName = z.output<typeof listedNameSchema>;

/** Blobs of which this store has no copy, or no good one: the first few by name. `since`: milliseconds since the epoch. */
export const lackSchema = z.object({
  count: z.int(),
  bytes: z.number(),
  since: z.number().optional(),
  digests: z.array(digestSchema),
});
export type Lack = z.output<typeof lackSchema>;

export const storeStatusSchema = z.object({
  /** What other stores have and it has not. */
  missing: lackSchema,
  /** What its disk damaged and no other store could replace yet. */
  damaged: lackSchema,
  /** What its disk damaged within a day and was replaced. */
  replaced: lackSchema.optional(),
  /** When it had last compared itself with all others, and read all of its blobs. */
  comparedAt: z.number().optional(),
  verifiedAt: z.number().optional(),
  /** A bucket that all of its blobs are in; a store that says the same has them too. */
  place: z.string().optional(),
  /** It is on its way to another place, and serves from both meanwhile. */
  moving: z.object({ to: z.string(), left: lackSchema }).optional(),
});
export type StoreStatus = z.output<typeof storeStatusSchema>;

export const replicationSchema = z.object({
  /** By host. Without a status it did not answer: why. */
  stores: z.array(z.object({ host: z.string(), status: storeStatusSchema.optional(), problem: z.string().optional() })),
});
export type Replication = z.output<typeof replicationSchema>;

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
    query: z.object({ from: z.coerce.number().int().nonnegative().default(0) }),
    response: 'stream',
    summary: 'The bytes of a blob, with ?from= those after so many, with content-length',
  }),
  stat: defineRoute({
    method: 'GET',
    path: '/blobs/:digest/stat',
    response: blobSchema,
    summary: 'Whether a blob is there, and how large; who asks is taken to want it',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/blobs',
    query: pageQuery,
    response: z.array(listedBlobSchema),
    summary: 'Blobs by digest, those after the given one; a page that is not full is the last',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/blobs/:digest',
    query: z.object({ unusedSince: z.coerce.number().optional() }),
    response: 'empty',
    summary: 'Delete a blob; one that is not there is fine. With ?unusedSince= one used later is a `conflict`',
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
  listNames: defineRoute({
    method: 'GET',
    path: '/names',
    query: pageQuery,
    response: z.array(listedNameSchema),
    summary: 'Names in their order, those after the given one; a page that is not full is the last',
  }),
  replication: defineRoute({
    method: 'GET',
    path: '/replication',
    response: replicationSchema,
    summary: 'Which blobs each of the stores has yet to get from the others',
  }),
  removeName: defineRoute({ method: 'DELETE', path: '/names/*name', response: 'empty', summary: 'Forget a name' }),
} as const;
