/** Which host has which part of the cluster's range: written at the join, mirrored by every agent. */
import { z } from 'zod';

export const leasePrefix = '/flynn/network/hosts/';

export const leaseKey = (hostId: string): string => `${leasePrefix}${hostId}`;

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
  site: z.string().min(1).optional(),
  /** Its address in that network, where hosts of the same site reach it without a detour. */
  localAddress: z.ipv4().optional(),
  /** Hosts that it has not heard through WireGuard lately, which pass nothing on for it meanwhile. Only behind NAT. */
  unheard: z.array(z.string()).optional(),
});
export type Lease = z.output<typeof leaseSchema>;
