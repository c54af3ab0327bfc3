/** Announces this host in the cell, on a lease: while the record is there, the host lives. */
import { systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { HostRecord, Resources } from '@flynn/scheduler/cell';
import type { Lease, Store } from '@flynn/store/store';

/** A host that died is known to be lost within ten seconds. */
const ttlSeconds = 6;
const reservedShare = 0.1;
/** Cores are shared by weight, and most jobs are idle most of the time. */
const cpuOvercommit = 4;

export function capacityOf(machine: { memoryBytes: number; cores: number }): Resources {
  return {
    memoryBytes: Math.floor(machine.memoryBytes * (1 - reservedShare)),
    cpuMillis: machine.cores * 1000 * cpuOvercommit,
  };
}

type HostStore = Pick<Store, 'get' | 'transact' | 'grantLease'>;

/** Resolves when the signal aborts. The lease is left to run out: an agent that is back in time was never away. */
export async function keepAnnounced(
  store: HostStore,
  record: HostRecord,
  options: { signal: AbortSignal; log: Logger; onAnnounced?: () => void },
): Promise<void> {
  const { signal, log } = options;
  let lease: Lease | undefined;
  await forever(
    'announcing the host',
    async () => {
      // A write that failed is repeated on the same lease: another one would be renewed besides it for ever, and ending it
      // would take a record away that got through after all.
      if (lease === undefined || lease.lost.aborted) lease = await store.grantLease({ ttlSeconds, signal });
      try {
        await put(store, record, lease.id, signal);
      } catch (error) {
        // It expired before that was noticed; what still renews it learns the same.
        if (hasCode(error, 'not_found')) lease = undefined;
        throw error;
      }
      options.onAnnounced?.();
      await aborted(AbortSignal.any([signal, lease.lost]));
      if (!signal.aborted) log.warn('the lease of the host was lost: announcing it anew');
    },
    { signal, log, maxMs: 1_000 },
  );
}

/** What people set on the record (cordoned, attributes) outlives the agent as long as the record does. */
async function put(store: HostStore, record: HostRecord, lease: string, signal: AbortSignal): Promise<void> {
  const key = cellKeys.host(record.id);
  for (;;) {
    const known = await store.get(key, { signal });
    const value = JSON.stringify(known === undefined ? record : merge(record, known.value));
    const { succeeded } = await store.transact(
      { compare: [{ key, modRevision: known?.modRevision ?? 0 }], then: [{ put: key, value, lease }] },
      { signal },
    );
    if (succeeded) return;
  }
}

function merge(record: HostRecord, known: string): HostRecord {
  const before = hostRecordSchema.safeParse(JSON.parse(known));
  if (!before.success) return record;
  return { ...record, cordoned: before.data.cordoned, attributes: { ...before.data.attributes, ...record.attributes } };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Until the engine answers, however long that takes: a host boots in any order. */
export async function untilThere<T>(
  what: string,
  ask: () => Promise<T>,
  options: { signal: AbortSignal; log: Logger },
): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      options.signal.throwIfAborted();
      options.log.warn(`waiting for ${what}: ${messageOf(error)}`);
    }
    await systemClock.sleep(1_000, { signal: options.signal });
  }
}
