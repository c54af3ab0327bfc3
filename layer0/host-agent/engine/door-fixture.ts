/** Somebody who listens where the memory engine says that its containers are, and how that is looked at. For tests. */
import { createServer } from 'node:net';
import { freePort } from '@flynn/kit/testing-ports';

export const quick = {
  type: 'tcp',
  path: '/',
  intervalMs: 20,
  timeoutMs: 60_000,
  threshold: 2,
  startTimeoutMs: 30_000,
} as const;

/** On a port where nobody else begins to listen once it is closed. */
export async function listen(again?: number): Promise<{ port: number; close(): Promise<void> }> {
  const port = again ?? (await freePort());
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { port, close: () => new Promise((resolve) => server.close(() => resolve())) };
}
