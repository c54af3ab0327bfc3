/** What the controller keeps of a hook. Its id is its source's, which is the app's. Of no kind: nobody reads its secret again. */
import { defineType } from '@flynn/resource/type';
import type { Resource } from '@flynn/resource/type';
import { z } from 'zod';
import { signingSecretSchema } from '../../notifications/signature.ts';
import type { SourceResource } from '../resource.ts';
import { hookOutcomes } from './model.ts';

const specSchema = z.object({ appId: z.string(), secret: signingSecretSchema });
const statusSchema = z.object({
  last: z.object({ atMs: z.int(), outcome: z.enum(hookOutcomes), what: z.string() }).optional(),
  refused: z.object({ atMs: z.int(), why: z.string(), from: z.string() }).optional(),
});

/**
 * Beside the source and not in it: a controller of the version before writes sources anew without what it does not know, and this
 * it leaves alone.
 */
export const hookType = defineType({
  name: 'source-hook',
  version: 1,
  spec: specSchema,
  status: statusSchema,
  initialStatus: () => ({}),
  owner: 'source',
  cascades: false,
});

export type HookStatus = z.output<typeof statusSchema>;
export type HookResource = Resource<z.output<typeof specSchema>, HookStatus>;

/**
 * Whether it is of this source. A controller of the version before removes a source and leaves its hook: whoever knew the secret of
 * that one has nothing to say of the next.
 */
export function isHookOf({ owner }: HookResource, source: SourceResource | undefined): boolean {
  return source !== undefined && owner?.uid === source.uid;
}
