/** What a host has to remember of the cluster to have its network while the store is away. */
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';
import { encryptionSchema } from './encryption.ts';
import { leaseSchema } from './lease.ts';
import { endpointSchema } from './policy.ts';

/** What a later version wrote of one of them is no reason to know nothing of the others. */
const readableOf = <S extends z.ZodType>(schema: S) =>
  z.array(z.unknown()).transform((all) => all.flatMap((one) => schema.safeParse(one).data ?? []));

const knownSchema = z.object({
  leases: readableOf(leaseSchema),
  endpoints: readableOf(endpointSchema),
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
