/** Which host has which part of the cluster's range: written at the join, mirrored by every agent. */
import { z } from 'zod';

export const leasePrefix = '/flynn/network/hosts/';

export const leaseKey = (hostId: string): string => `${leasePrefix}${hostId}`;

export const leaseSchema = z.object({
  hostId: z.string(),
  /** Where the other hosts reach it. */
  address: z.ipv4(),
  /** What its containers have addresses from. */
  subnet: z.cidrv4(),
  /** Milliseconds since the epoch. */
  joinedAt: z.number(),
});
export type Lease = z.output<typeof leaseSchema>;
