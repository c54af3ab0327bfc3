/** What a host has to remember of the cluster to have its network while the store is away. */
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';
import { encryptionSchema } from './encryption.ts';
import { leaseSchema } from './lease.ts';
import { endpointSchema } from './policy.ts';

const knownSchema = z.object({
  leases: z.array(leaseSchema),
  endpoints: z.array(endpointSchema),
  /** Of before there was any it is off; what a later version wrote is not. */
  encryption: encryptionSchema.default('off').catch('on'),
});
export type Known = Readonly<z.output<typeof knownSchema>>;

/** In the state directory. */
export const networkFile = 'network.json';

export async function recall(file: string): Promise<Known | undefined> {
  return readJsonFile(file, knownSchema);
}

export async function remember(file: string, known: Known): Promise<void> {
  await writeFileAtomic(file, `${JSON.stringify(known)}\n`);
}
