/** Cascading deletion: what a removed object owned is deleted after it, each child leaving a tombstone of its own. */
import type { Logger } from '@flynn/kit/log';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Compare, Store } from '@flynn/store/store';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { FlynnError } from '@flynn/kit/errors';
import { resourcePrefix } from './keys.ts';
import { keysOf, runReconciler } from './reconciler.ts';
import type { NewCondition } from './condition.ts';
import type { Again } from './reconciler.ts';
import { isUnreadable, readRecord } from './record.ts';
import type { TypeRegistry } from './registry.ts';
import type { ResourceService } from './service.ts';
import { firstPass, ownedReadable, tombstoneType } from './tombstone.ts';
import type { AnyType, Owner } from './type.ts';

/** Long enough for a write that had read the owner just before it went to have arrived. */
const secondPassMs = 30_000;

export type ReaperOptions = {
  service: ResourceService;
  registry: TypeRegistry;
  store: Store;
  log: Logger;
  signal: AbortSignal;
  now: () => number;
  /** Every write carries it: whoever lost its seat reaps nothing. */
  epoch?: Compare;
  /** Default 30 s. */
  secondPassMs?: number;
};

/** Runs until the signal aborts. */
export async function runReaper(options: ReaperOptions): Promise<void> {
  const { store, log, signal } = options;
  await using tombstones: Mirror<unknown> = await openMirror({
    store,
    prefix: resourcePrefix(tombstoneType.name),
    decode: (json, _key, entry) => readRecord(tombstoneType, json, entry),
    log,
    signal,
  });
  await runReconciler({
    name: 'reaper',
    sources: [keysOf(tombstones)],
    log,
    signal,
    reconcile: (id, { signal: run }) => reap(options, id, run),
  });
}

/** One look at a tombstone. What cannot be read keeps it: it says so. */
export async function reap(
  options: Omit<ReaperOptions, 'store' | 'log' | 'signal'>,
  id: string,
  signal: AbortSignal,
): Promise<void | Again> {
  const { service, registry, now, epoch } = options;
  const also = () => (epoch === undefined ? {} : { compare: [epoch] });
  const tombstone = await service.find(tombstoneType, id, { signal });
  if (tombstone === undefined) return undefined;
  const tell = (...conditions: NewCondition[]) =>
    service.change(tombstoneType, id, () => ({ conditions }), { signal, also });
  const owned = { service, types: registry.ownedBy(tombstone.spec.type), ...(epoch === undefined ? {} : { epoch }) };
  const pass = async (): Promise<number> => {
    try {
      return await deleteOwned(owned, tombstone.spec, signal);
    } catch (error) {
      if (isUnreadable(error)) {
        await tell({ type: ownedReadable, status: 'False', reason: 'Unreadable', message: messageOf(error) });
      }
      throw error;
    }
  };
  const passed = tombstone.conditions.find(({ type }) => type === firstPass);
  if (passed === undefined) {
    const count = await pass();
    const message = `${count} ${count === 1 ? 'object' : 'objects'} of ${tombstone.spec.type} ${tombstone.spec.id} deleted`;
    const wasTold = tombstone.conditions.some(({ type }) => type === ownedReadable);
    await tell(
      { type: firstPass, status: 'True', reason: 'Deleted', message },
      ...(wasTold ? [{ type: ownedReadable, status: 'True', reason: 'Readable' } as const] : []),
    );
    return { againInMs: options.secondPassMs ?? secondPassMs };
  }
  const leftMs = Date.parse(passed.since) + (options.secondPassMs ?? secondPassMs) - now();
  if (leftMs > 0) return { againInMs: leftMs };
  await pass();
  await service.delete(tombstoneType, id, { signal, also });
  return undefined;
}

/**
 * Asks for the deletion of all that is owned, of these types; gives how many there were. Idempotent. What cannot be read and
 * says that it is owned keeps nothing else: it is thrown (`unreadable`) at the end. Forgotten now, it would be there for good once
 * it can be read again.
 */
export async function deleteOwned(
  options: Pick<ReaperOptions, 'service' | 'epoch'> & { types: readonly AnyType[] },
  owner: Owner,
  signal: AbortSignal,
): Promise<number> {
  const { service, types, epoch } = options;
  let count = 0;
  const left: FlynnError[] = [];
  for (const type of types) {
    const owned = await service.list(type, { owner, onUnreadable: (error) => left.push(error), signal });
    count += owned.length;
    for (const { id } of owned) {
      try {
        await service.delete(type, id, { signal, also: () => (epoch === undefined ? {} : { compare: [epoch] }) });
      } catch (error) {
        // Somebody else deleted it meanwhile.
        if (!hasCode(error, 'not_found')) throw error;
      }
    }
  }
  const [first] = left;
  if (first !== undefined) throw first;
  return count;
}
