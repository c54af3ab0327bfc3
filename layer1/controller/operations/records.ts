/**
 * Where operations are kept: live ones as resources, so that what has to be known of the queue is small; ended ones
 * among some shards of history, so that they can be read a part at a time and never all at once.
 */
import { createHash } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';
import { resourceKey } from '@flynn/resource/keys';
import { decodeResource, encodeResource } from '@flynn/resource/record';
import type { CallOptions, Entry, Operation as StoreOperation, Store } from '@flynn/store/store';
import { operationType } from '../resources.ts';
import type { OperationResource } from '../resources.ts';

export const historyPrefix = '/flynn/operation-history/';
const shardCount = 64;

export const historyShards: readonly string[] = Array.from(
  { length: shardCount },
  (_, shard) => `${historyPrefix}${String(shard).padStart(2, '0')}/`,
);

export function historyKey(id: string): string {
  const shard = createHash('sha256').update(id).digest().readUInt8(0) % shardCount;
  return `${historyShards[shard] ?? historyPrefix}${id}`;
}

export function liveKey(id: string): string {
  return resourceKey(operationType.name, id);
}

export function historyPut(operation: OperationResource): StoreOperation {
  return { put: historyKey(operation.id), value: encodeResource(operationType.version, operation) };
}

export function decodeOperation(entry: Entry): OperationResource {
  return decodeResource(operationType, entry);
}

/** Live or ended, as it is in the store now. */
export async function findOperation(
  store: Pick<Store, 'transact'>,
  id: string,
  options: CallOptions = {},
): Promise<OperationResource | undefined> {
  const { reads } = await store.transact({ then: [{ get: liveKey(id) }, { get: historyKey(id) }] }, options);
  const entry = reads[0]?.[0] ?? reads[1]?.[0];
  return entry === undefined ? undefined : decodeOperation(entry);
}

export async function getOperation(
  store: Pick<Store, 'transact'>,
  id: string,
  options: CallOptions = {},
): Promise<OperationResource> {
  const found = await findOperation(store, id, options);
  if (found !== undefined) return found;
  throw noOperation(id);
}

export function noOperation(id: string): FlynnError {
  return new FlynnError('not_found', `there is no operation ${id}: list them with: flynn op list --all`, {
    detail: { type: operationType.name, id },
  });
}
