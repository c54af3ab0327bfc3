/** The API of the keys that secrets are sealed with in the store. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

const sealingSchema = z.object({
  /** `clear`: nothing is sealed. `changing`: some values are still in clear, or sealed with an older key. */
  state: z.enum(['clear', 'changing', 'sealed']),
  since: z.string().optional(),
  keys: z.array(z.object({ id: z.string(), madeAt: z.string(), isCurrent: z.boolean() })),
});
export type Sealing = z.output<typeof sealingSchema>;

export const sealingKeys = {
  list: defineRoute({
    method: 'GET',
    path: '/sealing-keys',
    response: sealingSchema,
    summary: 'Which keys the secrets in the store are sealed with; the keys themselves are told to nobody',
  }),
  rotate: defineRoute({
    method: 'POST',
    path: '/sealing-keys',
    response: sealingSchema,
    summary: 'Seal with a new key from now on, rewrite what is there, and retire the old key after that',
  }),
} as const;
