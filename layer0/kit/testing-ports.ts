/** Ports for what a test starts as a program of its own. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { FlynnError } from './errors.ts';

/** Of loopback, free a moment ago. Held together until all are known, so that they differ. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const addresses = servers.map((server) => server.address());
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return addresses.map((address) => {
    if (address === null || typeof address === 'string')
      throw new FlynnError('internal', 'a listening server has no port');
    return address.port;
  });
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}
