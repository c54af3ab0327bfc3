/** Announces this host in the cell, on a lease: while the record is there, the host lives. */
import { type Clock, pause, systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import type { Resources } from '@flynn/scheduler/resources';
import type { Lease, Revision, Store } from '@flynn/store/store';

/**
 * A host that died is known to be lost within eight seconds. Not less: after an election of etcd (2 s), or a
 * member that hangs, a renewal must still get through before the fence (2 s before the end) stops the host's singletons.
 */
const ttlSeconds = 7;
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

/** How soon a change of what the host says about itself is told, and how often `onAnnounced` hears. */
const lookMs = 1_000;
const refreshMs = 10_000;

/** What the record stands on. */
export type Announced = { lease: Lease; revision: Revision };

/**
 * Resolves when the signal aborts, with what the record then stands on if that is known. The lease is left to run out: an
 * agent that is back in time was never away.
 */
export async function keepAnnounced(
  store: HostStore,
  describe: () => HostRecord,
  options: {
    signal: AbortSignal;
    log: Logger;
    /** Before the record is put on this lease; what it throws has it tried again. */
    beforeAnnounced?: (lease: Lease) => Promise<void>;
    /** Now and then while the record stands on this lease, since this revision. What it throws has all of it tried again. */
    onAnnounced?: (lease: Lease, revision: Revision) => Promise<void>;
    clock?: Pick<Clock, 'sleep'>;
  },
): Promise<Announced | undefined> {
  const { signal, log, clock = systemClock } = options;
  let lease: Lease | undefined;
  let standing: Announced | undefined;
  let written: { lease: Lease; json: string; revision: Revision } | undefined;
  await forever(
    'announcing the host',
    async () => {
      // A write that failed is repeated on the same lease: another one would be renewed besides it for ever, and ending it
      // would take a record away that got through after all.
      if (lease === undefined || lease.lost.aborted) lease = await store.grantLease({ ttlSeconds, signal });
      const record = describe();
      const json = JSON.stringify(record);
      if (written === undefined || written.lease !== lease || written.json !== json) {
        standing = undefined;
        await options.beforeAnnounced?.(lease);
        try {
          written = { lease, json, revision: await put(store, record, lease.id, signal) };
        } catch (error) {
          // It expired before that was noticed; what still renews it learns the same.
          if (hasCode(error, 'not_found')) lease = undefined;
          throw error;
        }
      }
      await options.onAnnounced?.(lease, written.revision);
      standing = written;
      await untilDue(() => JSON.stringify(describe()) !== json, AbortSignal.any([signal, lease.lost]), clock);
      if (!signal.aborted && lease.lost.aborted) log.warn('the lease of the host was lost: announcing it anew');
    },
    { signal, log, maxMs: 1_000 },
  );
  return standing?.lease.lost.aborted === false ? standing : undefined;
}

/** Others act on what it says: whom they let in is in there. */
async function untilDue(hasChanged: () => boolean, signal: AbortSignal, clock: Pick<Clock, 'sleep'>): Promise<void> {
  for (let waitedMs = 0; waitedMs < refreshMs && !signal.aborted && !hasChanged(); waitedMs += lookMs) {
    await pause(lookMs, signal, clock);
  }
}

/** What people set on the record (cordoned, attributes) outlives the agent as long as the record does. */
async function put(store: HostStore, record: HostRecord, lease: string, signal: AbortSignal): Promise<Revision> {
  const key = cellKeys.host(record.id);
  for (;;) {
    const known = await store.get(key, { signal });
    const value = JSON.stringify(known === undefined ? record : merge(record, known.value));
    const { succeeded, revision } = await store.transact(
      { compare: [{ key, modRevision: known?.modRevision ?? 0 }], then: [{ put: key, value, lease }] },
      { signal },
    );
    if (succeeded) return revision;
  }
}

/** On a record that the host cordoned itself: why. */
export const diskCondition = 'condition.disk';
export const leaseCondition = 'condition.lease';

/** Of a host that finds itself that no new jobs may come. */
export function closedFor(record: HostRecord, attributes: Readonly<Record<string, string>>): HostRecord {
  return { ...record, cordoned: true, attributes: { ...record.attributes, ...attributes } };
}

function merge(record: HostRecord, known: string): HostRecord {
  const before = hostRecordSchema.safeParse(JSON.parse(known));
  if (!before.success) return record;
  const { [diskCondition]: disk, [leaseCondition]: lease, ...attributes } = before.data.attributes;
  const isByItself = disk !== undefined || lease !== undefined;
  return {
    ...record,
    // What the host cordoned itself it opens again by itself.
    cordoned: record.cordoned || (before.data.cordoned && !isByItself),
    attributes: { ...attributes, ...record.attributes },
  };
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
