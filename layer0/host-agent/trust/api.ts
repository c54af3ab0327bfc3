/** The agent's API for certificates: which this host has, and new ones at once. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

const certificatesSchema = z.array(
  z.object({
    /** As who it speaks: `flynn:host/h1`, `flynn:app/controller`. */
    role: z.string(),
    /** Whose it is, if it is a job's. */
    jobId: z.string().optional(),
    validFrom: z.iso.datetime(),
    validTo: z.iso.datetime(),
    /** SHA-256, in lower-case hexadecimal. */
    fingerprint: z.string(),
  }),
);
export type KnownCertificates = z.output<typeof certificatesSchema>;

export const certificateRoutes = {
  list: defineRoute({
    method: 'GET',
    path: '/certificates',
    response: certificatesSchema,
    summary: "The host's certificate and those of its jobs, without keys",
  }),
  renew: defineRoute({
    method: 'POST',
    path: '/certificates/renew',
    response: certificatesSchema,
    summary: 'Makes all of them again, with new keys: what is open goes on, what is opened later shows the new ones',
  }),
} as const;
