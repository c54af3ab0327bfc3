/** How certificates are kept. One for each first name: who brings another for that name replaces it. */
import { defineType } from '@flynn/resource/type';
import type { Resource } from '@flynn/resource/type';
import { z } from 'zod';
import { certificateSourceSchema, challengesSchema } from './model.ts';

/** A certificate that was checked, with what it says of itself. */
const bundleSchema = z.object({
  /** PEM, the leaf first, each signed by the next. */
  certificate: z.string(),
  /** PEM, PKCS #8, not encrypted. The name is one that the audit trail hides. */
  privateKey: z.string(),
  issuer: z.string(),
  notBefore: z.string(),
  notAfter: z.string(),
  /** What may surprise. */
  notes: z.array(z.string()).default([]),
});
export type Bundle = z.output<typeof bundleSchema>;

const dnsRecordSchema = z.object({ name: z.string(), value: z.string() });
export type DnsRecord = Readonly<z.output<typeof dnsRecordSchema>>;

export const certificateType = defineType({
  name: 'certificate',
  version: 1,
  spec: z.object({
    source: certificateSourceSchema,
    domains: z.array(z.string()).min(1).max(100),
    /** Of `own`. */
    own: bundleSchema.optional(),
    /** Made because there is a route, and gone with it. */
    isAutomatic: z.boolean().default(false),
  }),
  status: z.object({
    /** Of `acme`. */
    issued: bundleSchema.optional(),
    /** The names it was asked for with. */
    issuedFor: z.array(z.string()).default([]),
    challenges: challengesSchema.default([]),
    /** Of dns-01, that are there or may be. */
    records: z.array(dnsRecordSchema).default([]),
    failure: z
      .object({
        /** In a row. */
        count: z.int(),
        message: z.string(),
        at: z.string(),
        nextTryAt: z.string(),
      })
      .optional(),
  }),
  initialStatus: () => ({ issuedFor: [], challenges: [], records: [] }),
  nameOf: ({ domains }) => domains[0],
  cascades: false,
});
export type CertificateResource = typeof certificateType extends {
  spec: z.ZodType<infer Spec>;
  status: z.ZodType<infer Status>;
}
  ? Resource<Spec, Status>
  : never;
