/** How long do connections hold up a router that is told to stop? */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { openFront } from './testing.ts';

/** Under the 75 s after which an idle connection is closed in any case, and longer than is waited for anything here. */
const goodbyeMs = 70_000;
const drainMs = 10 * goodbyeMs;
const soon = { deadlineMs: 60_000, intervalMs: 5 };

test('a client that has not asked for long holds up nothing: its connection ends at once', async (t) => {
  const { front, pass, client } = await openFront(t, { goodbyeMs });
  const socket = await client();
  pass(goodbyeMs + 1_000);
  assert.equal(front.connections, 1);
  const drained = front.drain({ deadlineMs: drainMs });
  await waitFor(() => front.connections === 0, { what: 'its connection to be let go of', ...soon });
  await drained;
  await closed(socket);
});

test('one that asked lately hears of the end with its next answer', async (t) => {
  const { front, ask, client } = await openFront(t, { goodbyeMs });
  const socket = await client();
  const drained = front.drain({ deadlineMs: drainMs });
  assert.match(await ask(socket), /\r\nconnection: close\r\n/);
  socket.end();
  await waitFor(() => front.connections === 0, { what: 'its connection to be gone', ...soon });
  await drained;
});

test('a request that had arrived when its connection was about to end is answered', async (t) => {
  const { front, pass, ask, client } = await openFront(t, { goodbyeMs });
  const socket = await client();
  pass(goodbyeMs + 1_000);
  const asked = ask(socket);
  const drained = front.drain({ deadlineMs: drainMs });
  assert.match(await asked, /^HTTP\/1\.1 200 /);
  socket.end();
  await drained;
});

test('nothing is waited for where there is nobody', async (t) => {
  const { front } = await openFront(t, { goodbyeMs });
  await front.drain({ deadlineMs: drainMs });
});
