/** What blob stores ask each other, over HTTP: each answers for its own copies only. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { blobSchema, pageQuery, storeStatusSchema } from './api.ts';
import { heldSchema, pointerSchema, removalSchema } from './replica.ts';

const optionalPointer = z.object({ pointer: pointerSchema.optional() });

export const replicaRoutes = {
  copy: defineRoute({
    method: 'POST',
    path: '/replica/blobs/:digest',
    query: z.object({ usedAt: z.coerce.number() }),
    body: 'stream',
    response: heldSchema,
    summary: 'Keep a copy that was last used then; a conflict if it was removed since',
  }),
  open: defineRoute({
    method: 'GET',
    path: '/replica/blobs/:digest',
    query: z.object({ from: z.coerce.number().int().nonnegative().default(0) }),
    response: 'stream',
    summary: 'The bytes of a copy',
  }),
  find: defineRoute({
    method: 'GET',
    path: '/replica/blobs/:digest/held',
    response: z.object({ held: heldSchema.optional() }),
    summary: 'Whether there is a copy, and when it was last used; asking is no use',
  }),
  use: defineRoute({
    method: 'POST',
    path: '/replica/blobs/:digest/use',
    body: z.object({ at: z.number() }),
    response: z.object({ blob: blobSchema.optional() }),
    summary: 'Count a copy as used then',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/replica/blobs',
    query: pageQuery,
    response: z.array(heldSchema),
    summary: 'Copies by digest',
  }),
  remove: defineRoute({
    method: 'POST',
    path: '/replica/removals',
    body: removalSchema,
    response: z.object({ isRemoved: z.boolean() }),
    summary: 'Remove a copy that was not used since, and remember that',
  }),
  removals: defineRoute({
    method: 'GET',
    path: '/replica/removals',
    query: pageQuery,
    response: z.array(removalSchema),
    summary: 'What is remembered as removed, by digest',
  }),
  point: defineRoute({
    method: 'POST',
    path: '/replica/names',
    body: pointerSchema,
    response: 'empty',
    summary: 'Take where a name points, unless a later one is known',
  }),
  pointer: defineRoute({
    method: 'GET',
    path: '/replica/names/*name',
    response: optionalPointer,
    summary: 'Where a name points, or that it was removed',
  }),
  pointers: defineRoute({
    method: 'GET',
    path: '/replica/names',
    query: pageQuery,
    response: z.array(pointerSchema),
    summary: 'Names in their order, removed ones too',
  }),
  status: defineRoute({
    method: 'GET',
    path: '/replica/status',
    response: storeStatusSchema,
    summary: 'What this store lacks',
  }),
} as const;
