/** Announces this host in the cell, on a lease: while the record is there, the host lives. */
import { type Clock, pause, systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import type { Resources } from '@flynn/scheduler/resources';
import type { Lease, Revision, Store } from '@flynn/store/store';
import type { OwnRuns, Rival } from '../fencing/own-runs.ts';

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

/**
 * Of a record that is another's: it has been `taken back` by this agent, or `taken` from it while its lease holds; or it was
 * `found` where this agent's was, or is to be.
 */
export type Meeting = 'taken back' | 'taken' | 'found';

/** What the record stands on. */
export type Announced = { lease: Lease; revision: Revision };

/**
 * Resolves when the signal aborts, with what the record then stands on if that is known. The lease is left to run out: an
 * agent that is back in time was never away.
 *
 * With `runs` a record of another machine that is this host is left alone while that one renews it, and `onRival` hears of it, at
 * each look. But for one that took it from this agent, whose lease has held all the while: that is the copy, and the record is
 * taken back before it can have begun with anything. Once a record was left alone it is `conflict` as soon as it is free: what the
 * agent knows is of before whatever the other did as the host, and the next agent reads it all anew.
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
    runs?: OwnRuns;
    onRival?: (rival: Rival, how: Meeting) => void;
    /** Resolves once the record is on another lease, or the signal aborts: sooner than at the next look. */
    untilTaken?: (standing: Announced, signal: AbortSignal) => Promise<void>;
    clock?: Pick<Clock, 'sleep'>;
  },
): Promise<Announced | undefined> {
  const { signal, log, clock = systemClock } = options;
  let lease: Lease | undefined;
  let standing: Announced | undefined;
  let written: { lease: Lease; json: string; revision: Revision } | undefined;
  let outdated: FlynnError | undefined;
  await forever(
    'announcing the host',
    async () => {
      // A write that failed is repeated on the same lease: another one would be renewed besides it for ever, and ending it
      // would take a record away that got through after all.
      if (lease === undefined || lease.lost.aborted) lease = await store.grantLease({ ttlSeconds, signal });
      const record = describe();
      const json = JSON.stringify(record);
      const isSaid = written?.lease === lease && written.json === json;
      if (written === undefined || !isSaid || !(await stands(store, record.id, lease, options))) {
        standing = undefined;
        const mayTakeBack = written?.lease === lease;
        const put = await putRecord(store, record, lease, { ...options, mayTakeBack, outdated }).catch(
          (error: unknown) => {
            // It expired before that was noticed; what still renews it learns the same.
            if (hasCode(error, 'not_found')) lease = undefined;
            throw error;
          },
        );
        if (typeof put !== 'number') {
          options.onRival?.(put, mayTakeBack ? 'taken' : 'found');
          written = undefined;
          outdated = new FlynnError(
            'conflict',
            `another agent was host ${record.id} meanwhile and is no more: what this one knows is of before, and it begins anew`,
          );
          await pause(lookMs, signal, clock);
          return;
        }
        written = { lease, json, revision: put };
      }
      const now = written;
      const remembered = options.runs?.stand();
      await options.onAnnounced?.(lease, now.revision);
      await remembered;
      standing = now;
      const until = AbortSignal.any([signal, lease.lost]);
      await untilDue(
        () => JSON.stringify(describe()) !== json,
        until,
        clock,
        (limit) => options.untilTaken?.(now, limit),
      );
      if (!signal.aborted && lease.lost.aborted) log.warn('the lease of the host was lost: announcing it anew');
    },
    { signal, log, maxMs: 1_000, isFinal: (error) => error === outdated },
  );
  return standing?.lease.lost.aborted === false ? standing : undefined;
}

/** Others act on what it says: whom they let in is in there. */
async function untilDue(
  hasChanged: () => boolean,
  signal: AbortSignal,
  clock: Pick<Clock, 'sleep'>,
  untilTaken: (signal: AbortSignal) => Promise<void> | undefined,
): Promise<void> {
  const woken = new AbortController();
  const limit = AbortSignal.any([signal, woken.signal]);
  const taken = untilTaken(limit)?.finally(() => woken.abort());
  try {
    for (let waitedMs = 0; waitedMs < refreshMs && !limit.aborted && !hasChanged(); waitedMs += lookMs) {
      await pause(lookMs, limit, clock);
    }
  } finally {
    woken.abort();
    await taken;
  }
}

type PutOptions = Pick<Parameters<typeof keepAnnounced>[2], 'signal' | 'runs' | 'beforeAnnounced' | 'onRival'>;

/** Whether it is where it was put. One that is gone was taken away by who had a reason to. */
async function stands(store: HostStore, hostId: string, lease: Lease, { runs, signal }: PutOptions): Promise<boolean> {
  if (runs === undefined) return true;
  const entry = await store.get(cellKeys.host(hostId), { signal });
  return entry === undefined || entry.lease === lease.id;
}

/** What people set on the record (cordoned, attributes) outlives the agent as long as the record does. */
async function putRecord(
  store: HostStore,
  record: HostRecord,
  lease: Lease,
  options: PutOptions & { mayTakeBack: boolean; outdated: FlynnError | undefined },
): Promise<Revision | Rival> {
  const { runs, signal } = options;
  const key = cellKeys.host(record.id);
  for (;;) {
    const known = await store.get(key, { signal });
    const rival = runs?.rivalIn(known);
    const isTakenBack = rival !== undefined && options.mayTakeBack && runs?.isTakenFromThis(rival) === true;
    if (rival !== undefined && !isTakenBack) return rival;
    if (options.outdated !== undefined) throw options.outdated;
    await options.beforeAnnounced?.(lease);
    const run = await runs?.runOn(lease.id, isTakenBack ? undefined : known);
    const said = run === undefined ? record : { ...record, run };
    const value = JSON.stringify(known === undefined ? said : merge(said, known.value));
    const { succeeded, revision } = await store.transact(
      { compare: [{ key, modRevision: known?.modRevision ?? 0 }], then: [{ put: key, value, lease: lease.id }] },
      { signal },
    );
    if (!succeeded) continue;
    if (rival !== undefined) options.onRival?.(rival, 'taken back');
    return revision;
  }
}

/** On a record that the host cordoned itself: why. */
export const diskCondition = 'condition.disk';
export const leaseCondition = 'condition.lease';
export const engineCondition = 'condition.engine';

/** Of a host that finds itself that no new jobs may come. */
export function closedFor(record: HostRecord, attributes: Readonly<Record<string, string>>): HostRecord {
  return { ...record, cordoned: true, attributes: { ...record.attributes, ...attributes } };
}

/** What a host finds of itself keeps new jobs away, all of it told. */
export function openOrClosed(
  record: HostRecord,
  found: Readonly<{ isUnleased: boolean; isDiskFull: boolean; isEngineHung: boolean }>,
): HostRecord {
  const closed = {
    ...(found.isUnleased ? { [leaseCondition]: 'none' } : {}),
    ...(found.isDiskFull ? { [diskCondition]: 'full' } : {}),
    ...(found.isEngineHung ? { [engineCondition]: 'hangs' } : {}),
  };
  return Object.keys(closed).length === 0 ? record : closedFor(record, closed);
}

function merge(record: HostRecord, known: string): HostRecord {
  const before = hostRecordSchema.safeParse(JSON.parse(known));
  if (!before.success) return record;
  const {
    [diskCondition]: disk,
    [leaseCondition]: lease,
    [engineCondition]: engine,
    ...attributes
  } = before.data.attributes;
  const isByItself = disk !== undefined || lease !== undefined || engine !== undefined;
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
