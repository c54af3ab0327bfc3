import assert from 'node:assert/strict';
import { connect } from 'node:http2';
import { test } from 'node:test';
import { ask, setUp, settled, startBackend } from '../testing.ts';
import { replyOf, request } from './testing.ts';

test('the plain port speaks HTTP/2 with whoever begins with it, and HTTP/1.1 with all others', async (t) => {
  const { plane, router, port } = await setUp(t);
  const backend = await startBackend(t, (incoming, response) => response.end(incoming.url));
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  const session = connect(`http://127.0.0.1:${port}`);
  const replies = await Promise.all(['/a', '/b', '/c'].map((path) => replyOf(request(session, { ':path': path }))));
  assert.deepEqual(
    replies.map((reply) => reply.body),
    ['/a', '/b', '/c'],
  );
  assert.ok(replies.every((reply) => typeof reply.headers['x-request-id'] === 'string'));
  assert.equal((await ask(port)).statusCode, 200);
  const unknown = await replyOf(request(session, { ':authority': 'other.test' }));
  assert.equal(unknown.headers['x-flynn-error'], 'unknown-host');
  const isGone = new Promise((resolve) => session.once('close', resolve));
  await router.stop({ drainMs: 5_000 });
  await isGone;
});
