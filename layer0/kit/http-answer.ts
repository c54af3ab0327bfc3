/** How a handler's result goes out on the wire, by the kind of its route. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Duplex, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FlynnError, asFlynnError } from './errors.ts';
import type { Logger } from './log.ts';
import { raceAbort } from './retry.ts';
import type { ServerEvent } from './routes.ts';
import { encodeEvent, encodeFailure, heartbeat, heartbeatMs } from './sse.ts';

/** Its content type is the route's. */
export type StreamAnswer = {
  body: Readable | AsyncIterable<Uint8Array>;
  headers?: Record<string, string>;
  status?: number;
};

/**
 * Sends the body; resolves when it is out or the client has gone. A body that fails after the head cuts the
 * connection: that is the only way left to tell the client that it did not get everything.
 */
export async function sendStream(
  response: ServerResponse,
  answer: StreamAnswer,
  { type, log }: { type: string; log: Logger },
): Promise<void> {
  const body = answer.body instanceof Readable ? answer.body : Readable.from(answer.body, { objectMode: false });
  response.statusCode = answer.status ?? 200;
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.setHeader(name, value);
  response.setHeader('content-type', type);
  if (response.req.method === 'HEAD') {
    body.destroy();
    response.end();
    return;
  }
  response.flushHeaders();
  try {
    await pipeline(body, response);
  } catch (error) {
    if (!isClientGone(error, response)) log.error({ err: error }, 'a stream failed half way through');
  }
}

function isClientGone(error: unknown, response: ServerResponse): boolean {
  return (
    response.req.socket.destroyed ||
    (error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE')
  );
}

/** Sends events until they end, fail, or `signal` aborts (the client went away or the server closes). Never throws. */
export async function sendEvents(
  response: ServerResponse,
  events: AsyncIterable<ServerEvent>,
  { signal, log }: { signal: AbortSignal; log: Logger },
): Promise<void> {
  response.statusCode = 200;
  response.setHeader('content-type', 'text/event-stream');
  response.setHeader('cache-control', 'no-store');
  // Tells buffering proxies in between to pass each event on at once.
  response.setHeader('x-accel-buffering', 'no');
  const iterator = events[Symbol.asyncIterator]();
  // A reader that takes nothing has enough waiting for it to know that we are here.
  const beat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(heartbeat);
  }, heartbeatMs);
  try {
    response.write(heartbeat);
    while (response.req.method !== 'HEAD') {
      const next = await raceAbort(iterator.next(), signal);
      if (next.done === true) break;
      if (!response.write(encodeEvent(next.value))) await once(response, 'drain', { signal });
    }
  } catch (error) {
    if (!signal.aborted) {
      if (asFlynnError(error).code === 'internal') log.error({ err: error }, 'an event stream failed');
      response.write(encodeFailure(error));
    }
  } finally {
    clearInterval(beat);
    response.end();
    // Not awaited: a generator that is in the middle of a wait returns only when that wait ends.
    Promise.resolve(iterator.return?.()).catch((error: unknown) => {
      if (!signal.aborted) log.error({ err: error }, 'an event stream failed while ending');
    });
  }
}

/** The requests that came as upgrades, with the socket the answer takes over. */
const upgrades = new WeakMap<IncomingMessage, { socket: Duplex; head: Buffer; leave: () => void }>();

export function rememberUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const leave = () => socket.destroy();
  upgrades.set(request, { socket, head, leave });
  // Nobody reads until the answer, and who does not read does not notice that the other side leaves. What it says early
  // stays in the buffer.
  socket.once('end', leave);
  socket.read(0);
}

export function checkUpgrade(request: IncomingMessage): void {
  if (!upgrades.has(request)) {
    throw new FlynnError('invalid', 'this path answers only upgrades: send "Connection: Upgrade" and "Upgrade: flynn"');
  }
}

/**
 * Answers 101 and hands the raw socket over; from then on it belongs to `use`, which has to read it. The connection is
 * never half open: when one side has ended, so has the other. `use` is called even if the client has left meanwhile, for
 * what it holds: `close` comes after it in any case.
 */
export function sendUpgrade(response: ServerResponse, use: (socket: Duplex) => void): void {
  const upgrade = upgrades.get(response.req);
  if (upgrade === undefined) throw new FlynnError('internal', 'the request was not an upgrade');
  const { socket, head, leave } = upgrade;
  const requestId = response.getHeader('x-request-id');
  response.detachSocket(response.req.socket);
  const idLine = typeof requestId === 'string' ? `X-Request-Id: ${requestId}\r\n` : '';
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: flynn\r\n${idLine}\r\n`);
  socket.allowHalfOpen = false;
  socket.removeListener('end', leave);
  if (head.length > 0) socket.unshift(head);
  use(socket);
  if (socket.closed) process.nextTick(() => socket.emit('close'));
}
