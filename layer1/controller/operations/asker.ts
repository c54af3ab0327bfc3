/** Who asked for an operation: what it comes upon while it runs, an image that a Dockerfile names, is judged by what they may. */
import { z } from 'zod';
import type { Principal } from '../access/principal.ts';

/** Neither: the holder of the root key. */
export const askerSchema = z.object({ userId: z.string().optional(), tokenId: z.string().optional() });
export type Asker = z.output<typeof askerSchema>;

/** Undefined for the platform itself, which asks for nobody: it looks at a repository that an app follows. */
export function askerOf({ kind, userId, token }: Principal): Asker | undefined {
  if (kind === 'service') return undefined;
  return {
    ...(userId === undefined ? {} : { userId }),
    ...(token === undefined ? {} : { tokenId: token.id }),
  };
}
