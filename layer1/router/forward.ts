/**
 * Carries one HTTP request to one backend and its answer back, streaming both ways.
 *
 * This is node:http on both sides and not http-proxy's `web()`: that sends a DELETE or OPTIONS with a chunked body on as
 * one without a body, and the backend then reads the body as a second request. Here the frame of the body is stated anew
 * for every method.
 */
import { request as httpRequest } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Backend } from './backend.ts';
import { responseHeaders } from './headers.ts';
import type { RawHeaders } from './headers.ts';

export type Outcome =
  /** The answer went out whole. */
  | { kind: 'answered' }
  /** No connection, so the backend has seen nothing. */
  | { kind: 'dial-failed'; error: Error }
  /** The connection broke before the head of the answer; the backend may have acted on the request. */
  | { kind: 'dropped'; error: Error }
  /** No head of an answer in time. */
  | { kind: 'late' }
  /** Broke off, or went silent, within the answer: all that is left is to break off too. */
  | { kind: 'broken-off' }
  | { kind: 'client-gone' };

export type Timeouts = {
  dialMs: number;
  /** From the last byte of the request to the first of the answer. */
  firstByteMs: number;
  /** Without a byte in either direction, after that. */
  idleMs: number;
};

export type ForwardOptions = {
  backend: Backend;
  target: string;
  headers: RawHeaders;
  hasBody: boolean;
  /** The client waits for 100 before it sends the body. */
  expectsContinue: boolean;
  requestId: string;
  timeouts: Timeouts;
};

export function forward(request: IncomingMessage, response: ServerResponse, options: ForwardOptions): Promise<Outcome> {
  const { backend, timeouts } = options;
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let isConnected = false;
  let hasHead = false;
  let isSettled = false;
  let timer: NodeJS.Timeout | undefined;

  const upstream = httpRequest({
    host: backend.host,
    port: backend.port,
    agent: backend.agent,
    method: request.method,
    path: options.target,
    headers: options.headers,
  });

  const settle = (outcome: Outcome) => {
    if (isSettled) return;
    isSettled = true;
    clearTimeout(timer);
    request.unpipe(upstream);
    request.removeListener('data', touch);
    request.removeListener('end', touch);
    response.removeListener('close', onClientClose);
    response.removeListener('drain', touch);
    // What an app did not want to read stands between its answer and the client's next request.
    if (outcome.kind === 'answered' && !request.readableEnded) request.resume();
    // Of a whole answer the connection goes back to the pool by itself.
    if (outcome.kind !== 'answered' || !upstream.writableFinished) upstream.destroy();
    resolve(outcome);
  };
  const onClientClose = () => settle(response.writableFinished ? { kind: 'answered' } : { kind: 'client-gone' });
  const touch = () => timer?.refresh();
  const arm = (ms: number, outcome: Outcome) => {
    clearTimeout(timer);
    timer = setTimeout(() => settle(outcome), ms);
  };

  const begin = () => {
    if (isSettled) return;
    isConnected = true;
    arm(timeouts.firstByteMs, { kind: 'late' });
    if (!options.hasBody) return;
    // Nothing of the body is taken from the client before there is a connection: until then another backend can be tried.
    upstream.flushHeaders();
    if (options.expectsContinue) response.writeContinue();
    request.on('data', touch);
    request.on('end', touch);
    request.pipe(upstream);
  };

  response.on('close', onClientClose);
  upstream.on('socket', (socket) => {
    if (!socket.connecting) {
      begin();
      return;
    }
    arm(timeouts.dialMs, { kind: 'dial-failed', error: new Error(`no answer within ${timeouts.dialMs} ms`) });
    socket.once('connect', begin);
  });
  upstream.on('error', (error) => {
    // Once the answer has begun, what matters is whether it ends well.
    if (hasHead) return;
    settle(isConnected ? { kind: 'dropped', error } : { kind: 'dial-failed', error });
  });
  const onUpstreamClose = () => settle({ kind: 'dropped', error: new Error('the connection was closed') });
  upstream.once('close', onUpstreamClose);
  upstream.on('response', (incoming) => {
    hasHead = true;
    upstream.removeListener('close', onUpstreamClose);
    if (isSettled) return;
    arm(timeouts.idleMs, { kind: 'broken-off' });
    const headers = responseHeaders(incoming.rawHeaders, options.requestId);
    try {
      response.writeHead(incoming.statusCode ?? 502, incoming.statusMessage, headers);
    } catch (error) {
      // A head that may not be sent, for the characters in it.
      settle({ kind: 'dropped', error: error instanceof Error ? error : new Error(String(error)) });
      return;
    }
    // With the first bytes of the body if they are here already, else at once: the client of a stream waits for it.
    setImmediate(() => {
      if (!isSettled && !response.writableEnded) response.flushHeaders();
    });
    incoming.on('data', touch);
    response.on('drain', touch);
    incoming.on('error', () => settle({ kind: 'broken-off' }));
    incoming.on('close', () => {
      if (!incoming.complete) settle({ kind: 'broken-off' });
    });
    response.on('finish', () => settle({ kind: 'answered' }));
    incoming.pipe(response);
  });
  if (!options.hasBody) upstream.end();
  return promise;
}
