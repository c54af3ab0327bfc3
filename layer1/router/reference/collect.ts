/** Takes a body in before a backend is taken, so that a slow client holds none. */
import type { IncomingMessage } from 'node:http';
import type { Limits, Problem } from '../exchange.ts';
import type { Deadlines } from '../http1/deadlines.ts';

export async function collect(
  request: IncomingMessage,
  limits: Limits,
  deadlines: Deadlines,
): Promise<readonly Buffer[] | Problem> {
  const { promise, resolve } = Promise.withResolvers<readonly Buffer[] | Problem>();
  const parts: Buffer[] = [];
  const wait = () => deadlines.start(limits.idleMs, () => resolve('client-slow'));
  let stopWaiting = wait();
  request.on('data', (part: Buffer) => {
    stopWaiting();
    stopWaiting = wait();
    parts.push(part);
  });
  request.once('end', () => resolve(parts));
  // The client has gone; whoever comes next will see it.
  request.once('close', () => resolve(parts));
  try {
    return await promise;
  } finally {
    stopWaiting();
    request.removeAllListeners('data');
  }
}
