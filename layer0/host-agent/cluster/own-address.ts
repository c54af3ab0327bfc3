/**
 * Where this host is, told to the others. It is what the agent is told by `up`, and may be another than it was: whoever follows the
 * members of etcd would be led to where this host's member was, which may be the only one, with nobody left to say so.
 */
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { decodeJson } from '@flynn/store/codec';
import type { Entry, Store } from '@flynn/store/store';
import type { z } from 'zod';
import { leaseKey, leaseSchema } from '../network/lease.ts';
import { memberKey, memberSchema } from './member-keys.ts';
import { leaseSubnet } from './subnets.ts';

/**
 * Before anything is done by what the store says of hosts. One that is none of the cluster any more stays so, and what this version
 * cannot read stays as it is: a host that waited for it would do nothing at all.
 */
export async function tellOwnAddress(
  store: Store,
  { hostId, address }: { hostId: string; address: string },
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<void> {
  const known = readable(leaseSchema, await store.get(leaseKey(hostId), { signal }), log);
  if (known === undefined) return;
  if (known.address !== address) {
    log.info(`this host was at ${known.address}, and is at ${address} from now on`);
    try {
      await leaseSubnet(
        store,
        { ...known, address, range: known.subnet, now: known.joinedAt },
        { mayMove: true, signal },
      );
    } catch (error) {
      if (!hasCode(error, 'conflict', 'invalid')) throw error;
      // People have to say which of them is there.
      log.error(`this host is told that it is at ${address}, and cannot say so: ${error.message}`);
      return;
    }
  }
  const entry = await store.get(memberKey(hostId), { signal });
  const member = readable(memberSchema, entry, log);
  if (entry === undefined || member === undefined) return;
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

function readable<S extends z.ZodType>(schema: S, entry: Entry | undefined, log: Logger): z.output<S> | undefined {
  try {
    return entry && decodeJson(schema, entry.value, entry.key);
  } catch (error) {
    log.error(`what the store has of where this host is stays as it is: ${messageOf(error)}`);
    return undefined;
  }
}
