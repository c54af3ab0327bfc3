/** Takes a body in before a backend is taken, so that a slow client holds none. */
import type { IncomingMessage } from 'node:http';
import type { Limits, Problem } from '../exchange.ts';

export async function collect(request: IncomingMessage, limits: Limits): Promise<readonly Buffer[] | Problem> {
  const { promise, resolve } = Promise.withResolvers<readonly Buffer[] | Problem>();
  const parts: Buffer[] = [];
  const timer = setTimeout(() => resolve('client-slow'), limits.idleMs);
  request.on('data', (part: Buffer) => {
    timer.refresh();
    parts.push(part);
  });
  request.once('end', () => resolve(parts));
  // The client has gone; whoever comes next will see it.
  request.once('close', () => resolve(parts));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    request.removeAllListeners('data');
  }
}
