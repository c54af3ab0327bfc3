import assert from 'node:assert/strict';
import { test } from 'node:test';
import { neverForwarded } from './policy/origin.ts';
import { mayFollowBody } from './trailers.ts';

test('what frames, routes, authorises or says who asks has no place after a body', () => {
  const refused = [
    ...neverForwarded,
    'content-length',
    'transfer-encoding',
    'host',
    'http2-settings',
    'authorization',
    'set-cookie',
    'content_length',
    'x_forwarded_for',
    'x-forwarded-server',
    'x-flynn-error',
    'x_flynn_anything',
  ];
  for (const name of refused) assert.ok(!mayFollowBody(name), name);
});

test('all else has: checksums, and how a gRPC call ended', () => {
  for (const name of ['x-sum', 'digest', 'server-timing', 'grpc-status', 'grpc-message', 'grpc-status-details-bin']) {
    assert.ok(mayFollowBody(name), name);
  }
});
