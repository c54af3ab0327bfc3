/** A backend that says what the test wants, byte by byte, each time it has got the head of a request. */
import { createServer } from 'node:net';
import type { Socket } from 'node:net';
import { waitFor } from '@flynn/kit/retry';
import type { Driver } from '../config.ts';
import { settled, setUp, track } from '../testing.ts';
import type { Backend, Owner, World } from '../testing.ts';

export type Heard = {
  /** Of this connection, counted from 1. */
  request: number;
  /** The head, latin1. */
  head: string;
};

export type Behaviour = (socket: Socket, heard: Heard) => void;

export async function startRawBackend(t: Owner, behave: Behaviour): Promise<Backend> {
  const counter = { requests: 0 };
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    let unread = '';
    let request = 0;
    socket.on('end', () => socket.end());
    socket.on('data', (chunk) => {
      unread += chunk.toString('latin1');
      for (let end = unread.indexOf('\r\n\r\n'); end >= 0; end = unread.indexOf('\r\n\r\n')) {
        const head = unread.slice(0, end + 4);
        unread = unread.slice(end + 4);
        request += 1;
        counter.requests += 1;
        behave(socket, { request, head });
      }
    });
  });
  return track(t, server, counter);
}

/** A router with that backend behind app.test. */
export async function setUpWith(
  t: Owner,
  behave: Behaviour,
  options: { driver: Driver; timeouts?: Parameters<typeof setUp>[1] },
): Promise<World & { backend: Backend }> {
  const world = await setUp(t, options.timeouts, options.driver);
  const backend = await startRawBackend(t, behave);
  world.plane.up('web', backend.address);
  await settled(world.router, [backend.address]);
  return { ...world, backend };
}

/** Nothing is under way at any backend, and a backend that left has no connection. */
export async function leavesNothing({ plane, router, backend }: World & { backend: Backend }): Promise<void> {
  await waitFor(() => router.status().backends.every(({ inFlight }) => inFlight === 0), {
    what: 'nothing to be under way',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  plane.down('web', backend.address);
  await waitFor(() => backend.sockets.size === 0, {
    what: 'no connection to the backend to be left',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
}
