/** The API of SSH keys that may push. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { keySchema } from '../model.ts';
import { pageQuery } from '../paging.ts';

export const keys = {
  create: defineRoute({
    method: 'POST',
    path: '/keys',
    access: 'anybody',
    body: z.object({ publicKey: z.string() }),
    response: keySchema,
    summary: 'Let an SSH public key push; the same key again is fine',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/keys',
    access: 'anybody',
    query: pageQuery,
    response: z.array(keySchema),
    summary: 'SSH keys',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/keys/:fingerprint',
    response: keySchema,
    summary: 'One key; the fingerprint url-encoded',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/keys/:fingerprint',
    access: 'anybody',
    response: 'empty',
    summary: 'Take a key back',
  }),
} as const;
