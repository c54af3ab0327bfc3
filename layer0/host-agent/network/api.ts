/** The agent's API for the network between hosts: by which way this host reaches each of the others, and encryption. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { encryptionSchema, encryptionWordSchema } from './encryption.ts';

const reachedHostSchema = z.object({
  hostId: z.string(),
  way: z.enum(['direct', 'vxlan', 'wireguard', 'none']),
  /** The host that passes on what is sent there. */
  through: z.string().optional(),
  /** Why there is no way, for people. */
  why: z.string().optional(),
  /** Whether it is heard through WireGuard; absent where it need not be. */
  isHeard: z.boolean().optional(),
});
export type ReachedHost = z.output<typeof reachedHostSchema>;

export const networkSchema = z.object({
  /** As this host has carried it out; absent until its agent has once since it began. */
  encryption: encryptionSchema.optional(),
  /** The word in the store cannot be read: the host keeps to what it knew last. */
  isUnreadable: z.boolean().optional(),
  /** What cannot be put right on this host, for people; absent where there is nothing, and before agents told it. */
  problems: z.array(z.string()).optional(),
  hosts: z.array(reachedHostSchema),
});
export type ShownNetwork = z.output<typeof networkSchema>;

export const networkRoutes = {
  show: defineRoute({
    method: 'GET',
    path: '/network',
    response: networkSchema,
    summary: 'How this host reaches the others',
  }),
  encryption: defineRoute({
    method: 'GET',
    path: '/network/encryption',
    response: z.object({ encryption: encryptionWordSchema }),
    summary: 'What encryption between hosts is to be, for the whole cluster',
  }),
  setEncryption: defineRoute({
    method: 'PUT',
    path: '/network/encryption',
    body: z.object({ encryption: encryptionSchema }),
    response: z.object({ encryption: encryptionSchema }),
    summary: 'One step of encryption between hosts, for the whole cluster',
  }),
} as const;
