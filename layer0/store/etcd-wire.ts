/** How do the port's words map to etcd's, and etcd's errors to ours? */
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import {
  EtcdLeaseInvalidError,
  EtcdPermissionDeniedError,
  ClientClosedError,
  GRPCAbortedError,
  GRPCCancelledError,
  GRPCDeadlineExceededError,
  GRPCFailedPreconditionError,
  GRPCInternalError,
  GRPCInvalidArgumentError,
  GRPCNotFoundError,
  GRPCOutOfRangeError,
  GRPCResourceExhastedError,
  GRPCUnauthenticatedError,
  GRPCUnavailableError,
} from 'etcd3';
import type { ICompare, IEvent, IKeyValue, IRequestOp } from 'etcd3';
import type { ErrorCode } from '@flynn/kit/errors';
import type { Change, Compare, Entry, Operation } from './store.ts';

export function bytesOf(key: string): Buffer {
  return Buffer.from(key, 'utf8');
}

/** The end of the range of all keys with this prefix; everything for the empty prefix. */
export function rangeOf(prefix: string): { key: Buffer; range_end: Buffer } {
  if (prefix === '') return { key: Buffer.from([0]), range_end: Buffer.from([0]) };
  const end = bytesOf(prefix);
  // The last byte of UTF-8 text is never 0xff, so this never carries.
  const last = end.length - 1;
  end.writeUInt8(end.readUInt8(last) + 1, last);
  return { key: bytesOf(prefix), range_end: end };
}

export function entryOf(kv: IKeyValue): Entry {
  return Object.freeze({
    key: kv.key.toString('utf8'),
    value: kv.value.toString('utf8'),
    createRevision: Number(kv.create_revision),
    modRevision: Number(kv.mod_revision),
    ...(kv.lease === '0' ? {} : { lease: kv.lease }),
  });
}

export function changeOf(event: IEvent): Change {
  // The wire carries names in upper case; the type says otherwise, hence a comparison that takes both.
  if (event.type.toUpperCase() === 'PUT') return Object.freeze({ type: 'put', entry: entryOf(event.kv) });
  const key = event.kv.key.toString('utf8');
  return Object.freeze({ type: 'delete', key, modRevision: Number(event.kv.mod_revision) });
}

export function compareOf(compare: Compare): ICompare {
  const key = bytesOf(compare.key);
  return 'modRevision' in compare
    ? { key, target: 'Mod', result: 'Equal', mod_revision: compare.modRevision }
    : { key, target: 'Create', result: 'Equal', create_revision: compare.createRevision };
}

export function requestOf(operation: Operation): IRequestOp {
  if ('put' in operation) {
    const lease = operation.lease === undefined ? {} : { lease: operation.lease };
    return { request_put: { key: bytesOf(operation.put), value: bytesOf(operation.value), ...lease } };
  }
  if ('delete' in operation) return { request_delete_range: { key: bytesOf(operation.delete) } };
  if ('deletePrefix' in operation) return { request_delete_range: rangeOf(operation.deletePrefix) };
  if ('get' in operation) return { request_range: { key: bytesOf(operation.get) } };
  return { request_range: rangeOf(operation.list) };
}

const codes: readonly (readonly [new (...args: never[]) => Error, ErrorCode])[] = [
  [GRPCDeadlineExceededError, 'timeout'],
  [GRPCUnavailableError, 'unavailable'],
  // A broken HTTP/2 stream arrives as "internal" or "cancelled": our own cancelling never gets here.
  [GRPCInternalError, 'unavailable'],
  [GRPCCancelledError, 'unavailable'],
  [GRPCAbortedError, 'unavailable'],
  [GRPCInvalidArgumentError, 'invalid'],
  [GRPCOutOfRangeError, 'invalid'],
  [GRPCFailedPreconditionError, 'invalid'],
  [GRPCResourceExhastedError, 'exhausted'],
  [GRPCUnauthenticatedError, 'unauthenticated'],
  [EtcdPermissionDeniedError, 'denied'],
  [EtcdLeaseInvalidError, 'not_found'],
  [GRPCNotFoundError, 'not_found'],
  [ClientClosedError, 'cancelled'],
];

/** etcd's error as ours; `what` is what was being done: "reading /a". */
export function translateError(error: unknown, what: string): FlynnError {
  if (error instanceof FlynnError) return error;
  const code = codes.find(([type]) => error instanceof type)?.[1];
  if (code === undefined) return asFlynnError(error);
  return new FlynnError(code, `${what} in etcd failed: ${messageOf(error)}`, { cause: error });
}

export function isCompacted(error: unknown): boolean {
  return messageOf(error).includes('required revision has been compacted');
}

/** Nothing reached etcd: even a transaction may be sent again. */
export function wasNeverSent(error: FlynnError): boolean {
  return (
    error.code === 'unavailable' &&
    /No connection established|closed before call started|ECONNREFUSED/.test(error.message)
  );
}
