/** Certificates as the API shows them, and as routers get them. */
import { z } from 'zod';

const time = z.string();

export const certificateSourceSchema = z.enum(['own', 'acme']);

/** Without its key, which nobody but routers gets to see again. */
export const certificateSchema = z.object({
  id: z.string(),
  /** What it is served for, or is going to be: host names, lower case; `*.example.com` stands for one label. */
  domains: z.array(z.string()),
  /** Those of them that it is served for: none while there is nothing to serve. A version before does not say. */
  servedFor: z.array(z.string()).optional(),
  /** `own` was brought by people, `acme` comes from an authority by itself and is renewed. */
  source: certificateSourceSchema,
  issuer: z.string().optional(),
  notBefore: time.optional(),
  notAfter: time.optional(),
  /** `waiting`: there is none yet for all its names. `failing`: the last try came to nothing; if there is one it is served on. */
  state: z.enum(['ready', 'waiting', 'failing', 'expired']),
  /** For people: what is wrong, or may surprise. Empty when there is nothing to say. */
  why: z.string(),
  /** When the next try to get or renew it is due. */
  nextTryAt: time.optional(),
  createdAt: time,
  updatedAt: time,
});
export type Certificate = z.output<typeof certificateSchema>;

/** What shows an authority that a name leads here. */
export const challengeTypeSchema = z.enum(['http-01', 'tls-alpn-01', 'dns-01']);
export type ChallengeType = z.output<typeof challengeTypeSchema>;

const challengeSchema = z.discriminatedUnion('type', [
  /** GET /.well-known/acme-challenge/TOKEN, of whatever host, is answered with it. */
  z.object({ type: z.literal('http-01'), token: z.string(), answer: z.string() }),
  /** Served for that name to who speaks acme-tls/1 (RFC 8737). PEM. */
  z.object({
    type: z.literal('tls-alpn-01'),
    domain: z.string(),
    certificate: z.string(),
    privateKey: z.string(),
  }),
]);

export type Challenge = z.output<typeof challengeSchema>;
export const challengesSchema = z.array(challengeSchema);

/** The data of the events for routers. */
export const servedCertificateSchema = z.object({
  id: z.string(),
  /** Those it is good for: none while there is nothing to serve. */
  domains: z.array(z.string()),
  source: certificateSourceSchema,
  /** PEM, the leaf first; without one there is nothing to serve yet. */
  certificate: z.string().optional(),
  privateKey: z.string().optional(),
  notAfter: time.optional(),
  challenges: challengesSchema.default([]),
});
export type ServedCertificate = z.output<typeof servedCertificateSchema>;

/** Of the authority what is no secret. */
export const acmeViewSchema = z.object({
  directoryUrl: z.string(),
  contact: z.array(z.string()),
  challenge: challengeTypeSchema,
  bindingKeyId: z.string().optional(),
  hookUrl: z.string().optional(),
  isAutomatic: z.boolean(),
});
export type AcmeView = z.output<typeof acmeViewSchema>;
