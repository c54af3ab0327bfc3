/** How do the port's words map to etcd's, and etcd's errors to ours? */
import { FlynnError, asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
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
  castGrpcError,
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

/** What a member that is being stopped says without a code: it may have done what it was asked for, or not. */
const stopped = /^2 UNKNOWN: (?:raft: stopped|raft proposal dropped|context canceled)/;

const certificateFaults: readonly (readonly [RegExp, string])[] = [
  [
    /alert (?:bad certificate|unknown ca|certificate (?:required|unknown|expired|revoked)|unsupported certificate)/i,
    "etcd does not accept this client's certificate: it is of another authority, or its time is over",
  ],
  [
    /unable to verify the first certificate|self-signed certificate|unable to get (?:local )?issuer|certificate has expired|certificate is not yet valid|does not match certificate/i,
    "etcd's certificate is of another authority than this client trusts, for another address, or its time is over",
  ],
];

/** etcd's error as ours; `what` is what was being done: "reading /a". */
export function translateError(error: unknown, what: string): FlynnError {
  if (error instanceof FlynnError) return error;
  const fault = certificateFaults.find(([pattern]) => pattern.test(messageOf(error)))?.[1];
  if (fault !== undefined) {
    return new FlynnError('unauthenticated', `${what} in etcd failed: ${fault}`, { cause: error });
  }
  // Streams give their errors as they come.
  const typed = error instanceof Error ? castGrpcError(error) : error;
  const isStopped = stopped.test(messageOf(error));
  const code = isStopped ? 'unavailable' : codes.find(([type]) => typed instanceof type)?.[1];
  if (code === undefined) return asFlynnError(error);
  const why = code === 'timeout' ? 'it did not answer in time' : messageOf(error);
  return new FlynnError(code, `${what} in etcd failed: ${why}`, { cause: error });
}

export function isCompacted(error: unknown): boolean {
  return messageOf(error).includes('required revision has been compacted');
}

/** Nothing reached etcd, or nothing of it that could write: even a transaction may be sent again. */
export function wasNeverSent(error: FlynnError): boolean {
  return (
    hasCode(error, 'unavailable', 'unauthenticated') &&
    /No connection established|closed before call started|ECONNREFUSED|not supported for learner|no leader/.test(
      messageOf(error.cause),
    )
  );
}

/** Another member may do better. */
export function isFaultOfMember(error: unknown): boolean {
  return hasCode(error, 'unavailable', 'timeout', 'unauthenticated');
}
