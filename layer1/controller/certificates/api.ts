/** Certificates of host names. `:certificate` is an id, or the first of its names. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { pageQuery } from '../paging.ts';
import { acmeViewSchema, certificateSchema, challengeTypeSchema } from './model.ts';

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
  request: defineRoute({
    method: 'POST',
    path: '/certificate-requests',
    access: 'developer of some app',
    body: z.object({ domains }),
    response: certificateSchema,
    summary: 'Ask the authority for a certificate; one whose last try failed is tried again at once',
  }),
  setAuthority: defineRoute({
    method: 'PUT',
    path: '/certificate-authority',
    body: z.object({
      /** Of its ACME directory. */
      directoryUrl: z.string(),
      contact: z.array(z.email()).max(10).default([]),
      challenge: challengeTypeSchema.default('http-01'),
      /** External account binding; the secret as the authority gave it, in base64url. */
      binding: z.object({ keyId: z.string().min(1), secret: z.string().min(1) }).optional(),
      /** For dns-01: see docs/certificates.md. */
      hook: z.object({ url: z.string(), secret: z.string().min(1).optional() }).optional(),
      /** Whom to trust behind the directory's address, as PEM; else whom everybody trusts. */
      ca: z.string().optional(),
      /** Every route of a public name gets a certificate without being asked for. */
      isAutomatic: z.boolean().default(true),
    }),
    response: acmeViewSchema,
    summary: 'Have certificates come from an authority by themselves, and agree to its terms',
  }),
  getAuthority: defineRoute({
    method: 'GET',
    path: '/certificate-authority',
    access: 'cluster viewer',
    response: acmeViewSchema,
    summary: 'Where certificates come from by themselves; `not_found` if they do not',
  }),
  unsetAuthority: defineRoute({
    method: 'DELETE',
    path: '/certificate-authority',
    response: 'empty',
    summary: 'Ask for no more certificates; those there are stay until they are over',
  }),
  /** Events `set` (a ServedCertificate) for every certificate, `current`, then `set` and `remove` ({id}); `unreadable` ({id}) for
   * one that is there and that the controller cannot read: what was known of it stays; `tickets` ({key}, in base64) whenever
   * sessions are resumed with another. Not to be resumed: a list has no gaps. */
  events: defineRoute({
    method: 'GET',
    path: '/certificates/events',
    response: 'events',
    summary: 'For routers: all certificates with their keys, then changes',
  }),
} as const;
