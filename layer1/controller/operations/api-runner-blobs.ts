/** The blob store for runners that do not reach it: those outside of the cluster. The controller hands everything through. */
import { blobSchema, digestSchema } from '@flynn/blobstore/api';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

/** Each is refused to a runner that holds no operation. */
export const runnerBlobs = {
  put: defineRoute({
    method: 'POST',
    path: '/runners/:runner/blobs',
    query: z.object({ digest: digestSchema.optional() }),
    body: 'stream',
    response: blobSchema,
    summary: 'Store bytes for an operation; refused with `invalid` when ?digest= is given and wrong',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/runners/:runner/blobs/:digest',
    response: 'stream',
    summary: 'The bytes of a blob',
  }),
  stat: defineRoute({
    method: 'GET',
    path: '/runners/:runner/blobs/:digest/stat',
    response: blobSchema,
    summary: 'Whether a blob is there, and how large',
  }),
  /** Of builds alone: `builds/<operation id>`. */
  named: defineRoute({
    method: 'GET',
    path: '/runners/:runner/named-blob',
    query: z.object({ name: z.string().regex(/^builds\/[\w.:@+-]{1,200}$/) }),
    response: blobSchema,
    summary: 'The blob that a build left under its name',
  }),
} as const;
