/** Where certificates come from by themselves: one authority, or none. */
import { defineType } from '@flynn/resource/type';
import type { ResourceOf } from '@flynn/resource/type';
import { z } from 'zod';
import { challengeTypeSchema } from '../model.ts';

/** There is one object, called this. */
export const acmeId = 'acme';

export const acmeType = defineType({
  name: 'acme',
  version: 1,
  spec: z.object({
    directoryUrl: z.string(),
    /** E-mail addresses. */
    contact: z.array(z.string()),
    challenge: challengeTypeSchema,
    /** External account binding: who we are to an authority that knows us already (RFC 8555 7.3.4). */
    binding: z.object({ keyId: z.string(), secret: z.string() }).optional(),
    /** Told to present and to clean up records, for dns-01. */
    hook: z.object({ url: z.string(), secret: z.string().optional() }).optional(),
    /** Whom to trust behind the directory's address, as PEM; else whom everybody trusts. */
    ca: z.string().optional(),
    /** Every route of a public name gets one without being asked for. */
    isAutomatic: z.boolean(),
    /** The account's. The name is one that the audit trail hides. */
    privateKey: z.string(),
  }),
  status: z.object({ accountUrl: z.string().optional() }),
  initialStatus: () => ({}),
  cascades: false,
});
export type AcmeResource = ResourceOf<typeof acmeType>;
type SpecOf<T> = T extends { spec: z.ZodType<infer Spec> } ? Spec : never;
export type AcmeSpec = SpecOf<typeof acmeType>;
