/** Which host has which part of the cluster's range: written at the join, mirrored by every agent. */
import { z } from 'zod';

export const leasePrefix = '/flynn/network/hosts/';

export const leaseKey = (hostId: string): string => `${leasePrefix}${hostId}`;

/** The name of a private network behind NAT, as people give it. */
export const siteSchema = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected up to 32 lower-case letters, digits and dashes');

/** Which says in its host's record, for constraints, that a host is in one, and in which. */
export const siteAttribute = 'behind-nat';

export const leaseSchema = z.object({
  hostId: z.string(),
  /** Where the other hosts reach it: of a host behind NAT its gateway, the first address of its subnet, through the tunnel. */
  address: z.ipv4(),
  /** What its containers have addresses from. */
  subnet: z.cidrv4(),
  /** Milliseconds since the epoch. */
  joinedAt: z.number(),
  /** The public half of its WireGuard key. A host whose agent is of a version before this has none. */
  tunnelKey: z
    .string()
    .regex(/^[A-Za-z0-9+/]{43}=$/)
    .optional(),
  /** The private network that it is in, behind NAT. Absent: all hosts reach its address. */
  site: siteSchema.optional(),
  /** Its address in that network, where hosts of the same site reach it without a detour. */
  localAddress: z.ipv4().optional(),
  /** Hosts that it has not heard through WireGuard lately, which pass nothing on for it meanwhile. Only behind NAT. */
  unheard: z.array(z.string()).optional(),
});
export type Lease = z.output<typeof leaseSchema>;
