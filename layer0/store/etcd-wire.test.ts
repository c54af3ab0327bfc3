import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { isFaultOfMember, rangeOf, translateError, wasNeverSent } from './etcd-wire.ts';

/** As gRPC gives it, on a stream. */
function grpcError(code: number, message: string): Error {
  return Object.assign(new Error(message), { code });
}

test('what gRPC says is told by our codes, and whether another member or another try may help', () => {
  const table = [
    ['14 UNAVAILABLE: No connection established. Last error: connect ECONNREFUSED', 14, 'unavailable', true, true],
    ['14 UNAVAILABLE: etcdserver: rpc not supported for learner', 14, 'unavailable', true, true],
    ['14 UNAVAILABLE: etcdserver: no leader', 14, 'unavailable', true, true],
    ['14 UNAVAILABLE: etcdserver: leader changed', 14, 'unavailable', true, false],
    ['2 UNKNOWN: raft: stopped', 2, 'unavailable', true, false],
    ['13 INTERNAL: Received RST_STREAM with code 2', 13, 'unavailable', true, false],
    ['4 DEADLINE_EXCEEDED: Deadline exceeded', 4, 'timeout', true, false],
    ['14 UNAVAILABLE: No connection established. Last error: alert bad certificate', 14, 'unauthenticated', true, true],
    ['8 RESOURCE_EXHAUSTED: etcdserver: mvcc: database space exceeded', 8, 'exhausted', false, false],
    ['5 NOT_FOUND: etcdserver: requested lease not found', 5, 'not_found', false, false],
    ['11 OUT_OF_RANGE: etcdserver: mvcc: required revision is a future revision', 11, 'invalid', false, false],
  ] as const;
  for (const [message, grpcCode, code, isMembers, isUnsent] of table) {
    const error = translateError(grpcError(grpcCode, message), 'reading /a');
    assert.ok(hasCode(error, code), `${message} became ${error.code}`);
    assert.match(error.message, /^reading \/a in etcd failed: /);
    assert.equal(isFaultOfMember(error), isMembers, message);
    assert.equal(wasNeverSent(error), isUnsent, message);
  }
});

test('the end of a prefix is the first key behind all that begin with it', () => {
  const keys = ['/a', '/a/', '/a/\u{10ffff}', '/a/b', '/a0', '/b'];
  const { key, range_end: end } = rangeOf('/a/');
  const within = keys.filter(
    (k) => Buffer.compare(Buffer.from(k), key) >= 0 && Buffer.compare(Buffer.from(k), end) < 0,
  );
  assert.deepEqual(within, ['/a/', '/a/\u{10ffff}', '/a/b']);
});
