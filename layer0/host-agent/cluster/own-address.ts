/**
 * Where this host is, told to the others. It is what the agent is told by `up`, and may be another than it was: whoever follows the
 * members of etcd would be led to where this host's member was, which may be the only one, with nobody left to say so.
 */
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Store } from '@flynn/store/store';
import { leaseKey, leaseSchema } from '../network/lease.ts';
import { memberKey, memberSchema } from './member-keys.ts';
import { leaseSubnet } from './subnets.ts';

/** Before anything is done by what the store says of hosts. One that is none of the cluster any more stays so. */
export async function tellOwnAddress(
  store: Store,
  { hostId, address }: { hostId: string; address: string },
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<void> {
  const lease = await store.get(leaseKey(hostId), { signal });
  if (lease === undefined) return;
  const known = leaseSchema.parse(JSON.parse(lease.value));
  if (known.address !== address) {
    log.info(`this host was at ${known.address}, and is at ${address} from now on`);
    try {
      await leaseSubnet(
        store,
        { ...known, address, range: known.subnet, now: known.joinedAt },
        { mayMove: true, signal },
      );
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
      // People have to say which of them is there.
      log.error(`this host is told that it is at ${address}, and cannot say so: ${error.message}`);
      return;
    }
  }
  const entry = await store.get(memberKey(hostId), { signal });
  if (entry === undefined) return;
  const member = memberSchema.parse(JSON.parse(entry.value));
  if (member.state !== 'voter' || member.address === address) return;
  // What etcd's members have of each other is the leader's to put right; it looks at the lease.
  await store.transact(
    {
      compare: [{ key: entry.key, modRevision: entry.modRevision }],
      then: [{ put: entry.key, value: JSON.stringify({ ...member, address }) }],
    },
    { signal },
  );
}
