/** What a cluster that is made, or joined, has of the machine. */
import { hostname } from 'node:os';
import { primaryAddress } from '@flynn/host-agent/hosts/own-addresses';
import { newSecret } from '@flynn/kit/secrets';
import { createAuthority } from '@flynn/kit/tls';
import type { Cluster, Machine } from '../settings.ts';

export async function thisMachine(stored: Cluster | undefined): Promise<Machine> {
  return {
    hostname: hostname(),
    address: primaryAddress(),
    now: new Date(),
    newSecret: () => newSecret(),
    authority: stored?.authority ?? (await createAuthority('flynn')),
  };
}
