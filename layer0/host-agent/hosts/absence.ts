/** The last act of an agent that is to be back: what others know of its host holds for longer than the agent's own leases. */
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import type { LastingRegistry } from '@flynn/discovery/store-registry';
import type { Lease, Store } from '@flynn/store/store';
import type { Fence } from '../fencing/fence.ts';
import type { Announced } from './record.ts';
import type { OwnRuns } from '../fencing/own-runs.ts';

/**
 * From the agent's end on, or from an election of etcd's after that, which gives each lease its whole length again; a start takes
 * two seconds, and on a machine that has much else to do many times that.
 */
export const absenceSeconds = 30;
/** All of it: a store that is away keeps no agent from ending. */
const actMs = 4_000;

export type AbsenceDeps = {
  store: Pick<Store, 'get' | 'transact' | 'grantLease'>;
  registry: Pick<LastingRegistry, 'outlive'>;
  fence: Pick<Fence, 'extend'>;
  runs?: Pick<OwnRuns, 'leave'>;
  hostId: string;
  log: Logger;
};

/**
 * In this order, so that an end in between is safe: the disk knows the lease, by which the next agent knows the record for one
 * that was left; the record, if it still stands as announced; the deadline of the watchdog, which may only be as late as the
 * record's; what the host announced. Whatever fails is logged and left on the lease it has. Never rejects. The longer lease is
 * renewed for as long as this process lives.
 */
export async function prepareAbsence(announced: Announced, deps: AbsenceDeps): Promise<void> {
  const { store, registry, fence, log } = deps;
  const signal = withDeadline(actMs);
  try {
    const lease = await store.grantLease({ ttlSeconds: absenceSeconds, signal });
    await deps.runs?.leave(lease.id);
    if (!(await moveRecord(announced.lease, lease, deps, signal))) {
      log.warn("the host's record is not this agent's any more: it is left as it is");
      return;
    }
    await fence.extend(lease);
    await registry.outlive(lease, { signal });
    log.info({ seconds: absenceSeconds }, 'what is known of this host holds until another agent is here');
  } catch (error) {
    log.warn(`what is known of this host holds for seconds only: ${messageOf(error)}`);
  }
}

/** Whether it stands on the second lease now: not if it was on another than the first. */
async function moveRecord(
  from: Pick<Lease, 'id'>,
  to: Pick<Lease, 'id'>,
  { store, hostId }: AbsenceDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const key = cellKeys.host(hostId);
  for (;;) {
    const entry = await store.get(key, { signal });
    if (entry?.lease !== from.id) return false;
    const { value, modRevision } = entry;
    const then = [{ put: key, value, lease: to.id }];
    const { succeeded } = await store.transact({ compare: [{ key, modRevision }], then }, { signal });
    if (succeeded) return true;
  }
}
