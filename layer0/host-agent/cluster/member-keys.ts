/** Where etcd's members are, as all who use the store follow it: `/flynn/cluster/members/<host>`, written by the leader. */
import type { Logger } from '@flynn/kit/log';
import type { EtcdClient } from '@flynn/store/etcd';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import { z } from 'zod';
import { clientUrlOf } from './etcd-resident.ts';

export const memberPrefix = '/flynn/cluster/members/';
export const memberKey = (hostId: string): string => `${memberPrefix}${hostId}`;

/** Name of the image that hosts run when they become members: a JSON string, written by bootstrap. */
export const etcdImageKey = '/flynn/cluster/etcd-image';

export const memberSchema = z.object({
  address: z.ipv4(),
  /** `lost`: its host has nothing of it any more, and says so itself. */
  state: z.enum(['joining', 'voter', 'lost']),
  /** What one that joins is told: the image to run, of the others, and under which id it does. */
  image: z.string().optional(),
  initialCluster: z.string().optional(),
  memberId: z.string().optional(),
});
export type Member = z.output<typeof memberSchema>;

export function openMembers(options: { store: EtcdClient; log: Logger; signal: AbortSignal }): Promise<Mirror<Member>> {
  return openMirror({ ...options, prefix: memberPrefix, decode: (json) => memberSchema.parse(json) });
}

/** Keeps the client's endpoints those of the voting members; ends with the signal. */
export async function followMembers(
  store: EtcdClient,
  members: Mirror<Member>,
  options: { log: Logger; signal: AbortSignal; onChange?: (endpoints: readonly string[]) => Promise<void> },
): Promise<void> {
  let told = '';
  for await (const { entries } of members.changes({ signal: options.signal })) {
    const voters = [...entries].filter(([, { value }]) => value.state === 'voter');
    const said = voters.map(([, { value }]) => clientUrlOf(value.address));
    // One of whom nothing can be read is where it was.
    const kept = members.unreadable.size === 0 ? [] : store.endpoints;
    const endpoints = [...new Set([...said, ...kept])].sort();
    if (said.length === 0) continue;
    if (endpoints.join() !== [...store.endpoints].sort().join()) {
      options.log.info({ endpoints }, 'the members of etcd changed');
      store.endpoints = endpoints;
    }
    if (endpoints.join() === told) continue;
    await options.onChange?.(endpoints);
    told = endpoints.join();
  }
}
