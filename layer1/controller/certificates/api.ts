/** Certificates of host names. `:certificate` is an id, or the first of its names. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { pageQuery } from '../paging.ts';
import { certificateSchema } from './model.ts';

const domains = z.array(z.string()).min(1).max(100);

export const certificates = {
  add: defineRoute({
    method: 'POST',
    path: '/certificates',
    access: 'developer of some app',
    body: z.object({
      domains,
      /** PEM: the leaf, then what signed it, each by the next. */
      certificate: z.string().max(65_536),
      /** PEM, not encrypted. */
      privateKey: z.string().max(65_536),
    }),
    response: certificateSchema,
    summary: 'Serve a certificate of your own for host names; one there already is replaced at once',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/certificates',
    access: 'anybody',
    query: pageQuery,
    response: z.array(certificateSchema),
    summary: 'Certificates, by name; without their keys',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/certificates/:certificate',
    access: 'developer of some app',
    response: 'empty',
    summary: 'Serve a certificate no longer',
  }),
  /** Events `set` (a ServedCertificate) for every certificate, `current`, then `set` and `remove` ({id}). Not to be resumed: a list has no gaps. */
  events: defineRoute({
    method: 'GET',
    path: '/certificates/events',
    response: 'events',
    summary: 'For routers: all certificates with their keys, then changes',
  }),
} as const;
