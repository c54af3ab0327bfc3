/** Ports for what a test starts as a program of its own. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { FlynnError, hasErrno } from './errors.ts';

/** Below those that the kernel gives to outgoing connections, which would take one before its program has begun. */
const range = { from: 12_000, to: 32_000 };
const maxTries = 100;

/** Of loopback, free a moment ago. Held together until all are known, so that they differ. */
export async function freePorts(count: number): Promise<number[]> {
  const held = await Promise.all(Array.from({ length: count }, () => hold()));
  await Promise.all(held.map(({ server }) => once(server.close(), 'close')));
  return held.map(({ port }) => port);
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

async function hold(): Promise<{ server: Server; port: number }> {
  for (let tries = 1; ; tries += 1) {
    const port = randomInt(range.from, range.to);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
      return { server, port };
    } catch (error) {
      if (!hasErrno(error, 'EADDRINUSE', 'EACCES')) throw error;
      if (tries >= maxTries)
        throw new FlynnError('exhausted', `no port of ${range.from} to ${range.to} is free`, { cause: error });
    }
  }
}
