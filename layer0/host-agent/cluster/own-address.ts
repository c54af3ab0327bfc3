/**
 * Where this host is, told to the others. It is what the agent is told by `up`, and may be another than it was: whoever follows the
 * members of etcd would be led to where this host's member was, which may be the only one, with nobody left to say so.
 */
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import { decodeJson } from '@flynn/store/codec';
import type { Entry, Store } from '@flynn/store/store';
import type { z } from 'zod';
import { leaseKey, leaseSchema } from '../network/lease.ts';
import { memberKey, memberSchema } from './member-keys.ts';
import { leaseSubnet } from './subnets.ts';

type Here = { hostId: string; address: string };

/**
 * Before anything is done by what the store says of hosts. One that is none of the cluster any more stays so. While something of it
 * cannot be read by this version, it is tried again and again beside all else: a host that waited for it would do nothing at all.
 */
export async function tellOwnAddress(
  store: Store,
  here: Here,
  { log, tasks, pauseMs = 10_000 }: { log: Logger; tasks: TaskGroup; pauseMs?: number },
): Promise<void> {
  try {
    await tell(store, here, { log, signal: tasks.signal });
  } catch (error) {
    if (!hasCode(error, 'invalid')) throw error;
    log.error(`this host is at ${here.address}, and cannot say so for now: ${error.message}`);
    tasks.run('own address', (signal) => tellLater(store, here, { log, signal, pauseMs }));
  }
}

async function tellLater(
  store: Store,
  here: Here,
  { log, signal, pauseMs }: { log: Logger; signal: AbortSignal; pauseMs: number },
): Promise<void> {
  for (;;) {
    await pause(pauseMs, signal);
    if (signal.aborted) return;
    try {
      return await tell(store, here, { log, signal });
    } catch (error) {
      log.debug(`this host cannot say yet where it is: ${messageOf(error)}`);
    }
  }
}

/** `invalid` while something of it cannot be read. */
async function tell(
  store: Store,
  { hostId, address }: Here,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<void> {
  const known = decoded(leaseSchema, await store.get(leaseKey(hostId), { signal }));
  if (known === undefined) return;
  if (known.address !== address) {
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
    log.info(`this host was at ${known.address}, and is at ${address} from now on`);
  }
  const entry = await store.get(memberKey(hostId), { signal });
  const member = decoded(memberSchema, entry);
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

function decoded<S extends z.ZodType>(schema: S, entry: Entry | undefined): z.output<S> | undefined {
  return entry && decodeJson(schema, entry.value, entry.key);
}
