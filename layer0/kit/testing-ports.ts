/** Ports for what a test starts itself, on an address or as a program of its own. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { type ListenOptions, type Server, createServer } from 'node:net';
import { FlynnError, hasErrno } from './errors.ts';

/** Below those that the kernel gives to outgoing connections, which would take one before its program has begun. */
const range = { from: 12_000, to: 32_000 };
const maxTries = 100;

/**
 * Which nobody listens on, and which no test of any process is given until this one ends: whoever listens there may begin late,
 * end and begin again, and where nobody is to listen nobody does.
 */
export async function freePorts(count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, () => freePort()));
}

export async function freePort(choose = () => randomInt(range.from, range.to)): Promise<number> {
  for (let tries = 1; tries <= maxTries; tries += 1) {
    const port = choose();
    // As ports are, these names are those of one network; and they go with their process, however that ends.
    const mark = await listening({ path: `\0flynn-test-port-${port}` });
    if (mark === undefined) continue;
    mark.unref();
    const probe = await listening({ port });
    await closed(probe ?? mark);
    if (probe !== undefined) return port;
  }
  throw new FlynnError('exhausted', `no port of ${range.from} to ${range.to} is free`);
}

/** Undefined where somebody else does. */
async function listening(at: ListenOptions): Promise<Server | undefined> {
  const server = createServer().listen(at);
  try {
    await once(server, 'listening');
    return server;
  } catch (error) {
    if (hasErrno(error, 'EADDRINUSE', 'EACCES')) return undefined;
    throw error;
  }
}

async function closed(server: Server): Promise<void> {
  await once(server.close(), 'close');
}
