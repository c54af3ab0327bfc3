import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectFailure } from '@flynn/host-agent/cluster/connect-failure';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { openDoor } from './open-door.ts';

const loopback = '127.0.0.1';
const another = '127.0.0.2';

const tried = (port: number, address = loopback) => connectFailure({ address, port }, AbortSignal.timeout(60_000));

test('somebody answers there until it is closed', async () => {
  const door = await openDoor({ port: await freePort(), addresses: [loopback] });
  assert.equal(await tried(door.port), undefined);
  await door[Symbol.asyncDispose]();
  assert.match((await tried(door.port)) ?? '', /ECONNREFUSED/);
});

test('where an agent of before has the port, that one answers', async () => {
  await using first = await openDoor({ port: await freePort(), addresses: [loopback] });
  await using second = await openDoor({ port: first.port, addresses: [loopback] });
  assert.equal(second.port, first.port);
  assert.equal(await tried(first.port), undefined);
});

test('where an agent has the port at one address alone, as one that waits for the store has, the others are answered too', async () => {
  await using waiting = await openDoor({ port: await freePort(), addresses: [loopback] });
  await using door = await openDoor({ port: waiting.port, addresses: [loopback, another] });
  assert.equal(await tried(door.port), undefined);
  assert.equal(await tried(door.port, another), undefined);
});

test('once the agent of before has ended, somebody answers in its place', async () => {
  const first = await openDoor({ port: await freePort(), addresses: [loopback] });
  await using second = await openDoor({ port: first.port, addresses: [loopback] });
  await first[Symbol.asyncDispose]();
  const isAnswered = async () => (await tried(second.port)) === undefined;
  await waitFor(isAnswered, { what: 'the port to be answered again', deadlineMs: 60_000, intervalMs: 20 });
});

test('without being told, all addresses of the machine are answered', async () => {
  await using door = await openDoor();
  assert.equal(await tried(door.port), undefined);
});

test('who stops waiting is told so', async () => {
  const stop = AbortSignal.abort();
  await assert.rejects(connectFailure({ address: loopback, port: 1 }, stop), { name: 'AbortError' });
});
