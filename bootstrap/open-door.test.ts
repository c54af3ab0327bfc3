import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectFailure } from '@flynn/host-agent/cluster/connect-failure';
import { waitFor } from '@flynn/kit/retry';
import { openDoor } from './open-door.ts';

const tried = (port: number) => connectFailure({ address: '127.0.0.1', port }, AbortSignal.timeout(10_000));

test('somebody answers there until it is closed', async () => {
  const door = await openDoor(0);
  assert.equal(await tried(door.port), undefined);
  await door[Symbol.asyncDispose]();
  assert.match((await tried(door.port)) ?? '', /ECONNREFUSED/);
});

test('where an agent of before has the port, that one answers', async () => {
  await using first = await openDoor(0);
  await using second = await openDoor(first.port);
  assert.equal(second.port, first.port);
  assert.equal(await tried(first.port), undefined);
});

test('once the agent of before has ended, somebody answers in its place', async () => {
  const first = await openDoor(0);
  await using second = await openDoor(first.port);
  await first[Symbol.asyncDispose]();
  const isAnswered = async () => (await tried(second.port)) === undefined;
  await waitFor(isAnswered, { what: 'the port to be answered again', deadlineMs: 10_000, intervalMs: 20 });
});

test('who stops waiting is told so', async () => {
  const stop = AbortSignal.abort();
  await assert.rejects(connectFailure({ address: '127.0.0.1', port: 1 }, stop), { name: 'AbortError' });
});
