/**
 * Carries one HTTP request to one backend and its answer back, streaming both ways.
 *
 * This is node:http on both sides and not http-proxy's `web()`: that sends a DELETE or OPTIONS with a chunked body on as
 * one without a body, and the backend then reads the body as a second request. Here the frame of the body is stated anew
 * for every method.
 */
import { request as httpRequest } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Agent } from 'node:http';
import type { Socket } from 'node:net';
import type { Backend } from '../backend.ts';
import type { Answer, Fields, Limits } from '../exchange.ts';
import type { Deadlines, Watched } from '../http1/deadlines.ts';
import { responseHeadersFor } from './heads.ts';
import type { RawHeaders } from './heads.ts';

/** Hints are no more than that: what node:http would throw at is left out. */
const hint = /^<[^<>]*>(?:; ?[a-z]+=[\w-]+)*$/;

export type Outcome =
  /** The answer went out whole. */
  | { kind: 'answered' }
  /** No connection, so the backend has seen nothing. */
  | { kind: 'dial-failed'; error: Error }
  /** The connection broke before the head of the answer; the backend may have acted on the request. */
  | { kind: 'dropped'; error: Error }
  /** No head of an answer in time; or the body did not come in time, or is too large. */
  | { kind: 'late' }
  | { kind: 'too-late' }
  | { kind: 'client-slow' }
  | { kind: 'body-too-large' }
  /** The policy wants another answer to be sent in place of the backend's. */
  | { kind: 'replaced'; answer: Answer }
  /** Broke off, or went silent, within the answer: all that is left is to break off too. */
  | { kind: 'broken-off' }
  | { kind: 'client-gone' };

export type ForwardOptions = {
  backend: Backend;
  agent: Agent;
  target: string;
  headers: RawHeaders;
  hasBody: boolean;
  /** The client waits for 100 before it sends the body. */
  expectsContinue: boolean;
  limits: Limits;
  deadlines: Deadlines;
  /** Of the whole; undefined without a limit. */
  leftMs: number | undefined;
  /** Collected of the body already, if the route wants that. */
  body: readonly Buffer[] | undefined;
  answered(status: number, hasBody: boolean): Fields | Answer;
  /** Of the answer's body. */
  passed(bytes: number): void;
};

export function forward(request: IncomingMessage, response: ServerResponse, options: ForwardOptions): Promise<Outcome> {
  const { backend, limits, deadlines, leftMs } = options;
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let isConnected = false;
  let hasHead = false;
  let isSettled = false;
  /** What is waited for now. */
  let step: { ms: number; endMs: number; outcome: Outcome } = {
    ms: Infinity,
    endMs: Infinity,
    outcome: { kind: 'late' },
  };
  let answering: Socket | undefined;

  const upstream = httpRequest({
    host: backend.host,
    port: backend.port,
    agent: options.agent,
    method: request.method,
    path: options.target,
    headers: options.headers,
  });

  const settle = (outcome: Outcome) => {
    if (isSettled) return;
    isSettled = true;
    deadlines.delete(watched);
    answering?.removeListener('error', breakOff);
    request.unpipe(upstream);
    response.removeListener('close', onClientClose);
    response.removeListener('drain', touch);
    // What an app did not want to read stands between its answer and the client's next request.
    if (outcome.kind === 'answered' && !request.readableEnded) request.resume();
    // Of a whole answer the connection goes back to the pool by itself.
    if (outcome.kind !== 'answered' || !upstream.writableFinished) upstream.destroy();
    resolve(outcome);
  };
  const onClientClose = () => settle(response.writableFinished ? { kind: 'answered' } : { kind: 'client-gone' });
  const touch = () => {
    step.endMs = deadlines.after(step.ms);
  };
  const arm = (ms: number, outcome: Outcome) => {
    step = { ms, endMs: deadlines.after(ms), outcome };
  };

  const breakOff = () => {
    if (isSettled) return;
    // At once: in a moment node:http would have ended it in order.
    response.destroy();
    settle({ kind: 'broken-off' });
  };
  const wholeEndMs = leftMs === undefined ? Infinity : deadlines.after(leftMs);
  const watched: Watched = {
    tick(nowMs) {
      if (nowMs > wholeEndMs) settle({ kind: hasHead ? 'broken-off' : 'too-late' });
      else if (nowMs > step.endMs) settle(step.outcome);
    },
  };
  deadlines.add(watched);

  const begin = () => {
    if (isSettled) return;
    isConnected = true;
    arm(limits.firstByteMs, { kind: 'late' });
    if (!options.hasBody) return;
    if (options.body !== undefined) {
      for (const part of options.body) upstream.write(part);
      upstream.end();
      return;
    }
    // Nothing of the body is taken from the client before there is a connection: until then another backend can be tried.
    upstream.flushHeaders();
    if (options.expectsContinue) response.writeContinue();
    arm(limits.idleMs, { kind: 'client-slow' });
    let bytes = 0;
    request.on('data', (part: Buffer) => {
      bytes += part.length;
      if (limits.bodyBytes > 0 && bytes > limits.bodyBytes) settle({ kind: 'body-too-large' });
      touch();
    });
    request.on('end', () => {
      if (!hasHead && !isSettled) arm(limits.firstByteMs, { kind: 'late' });
    });
    request.pipe(upstream);
  };

  response.on('close', onClientClose);
  // While a connection was made it may have left.
  if (response.destroyed) process.nextTick(onClientClose);
  upstream.on('socket', (socket) => {
    if (!socket.connecting) {
      begin();
      return;
    }
    backend.own(socket);
    arm(limits.dialMs, { kind: 'dial-failed', error: new Error(`no answer within ${limits.dialMs} ms`) });
    socket.once('connect', begin);
  });
  upstream.on('error', (error) => {
    // Once the answer has begun, what matters is whether it ends well.
    if (hasHead) return;
    settle(isConnected ? { kind: 'dropped', error } : { kind: 'dial-failed', error });
  });
  const onUpstreamClose = () => settle({ kind: 'dropped', error: new Error('the connection was closed') });
  upstream.once('close', onUpstreamClose);
  upstream.on('information', ({ statusCode, headers }) => {
    if (statusCode === 102) response.writeProcessing();
    touch();
    const links = typeof headers.link === 'string' ? headers.link.split(', ') : (headers.link ?? []);
    if (statusCode === 103 && links.length > 0 && links.every((link) => hint.test(link))) {
      response.writeEarlyHints({ link: links });
    }
  });
  upstream.on('response', (incoming) => {
    if (incoming.statusCode === 101) {
      settle({ kind: 'dropped', error: new Error('it switched protocols without being asked') });
      return;
    }
    hasHead = true;
    upstream.removeListener('close', onUpstreamClose);
    if (isSettled) return;
    arm(limits.idleMs, { kind: 'broken-off' });
    const added = options.answered(incoming.statusCode ?? 502, incoming.headers['content-length'] !== '0');
    if ('status' in added) return settle({ kind: 'replaced', answer: added });
    const headers = responseHeadersFor(incoming, added);
    if (headers === undefined) return settle({ kind: 'dropped', error: new Error('the head may not be passed on') });
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
    incoming.on('data', (part: Buffer) => {
      options.passed(part.length);
      touch();
    });
    response.on('drain', touch);
    incoming.on('error', breakOff);
    // Of an answer that ends with its connection, node:http takes a reset for the end.
    answering = incoming.socket;
    answering.on('error', breakOff);
    incoming.on('close', () => {
      if (!incoming.complete) settle({ kind: 'broken-off' });
    });
    response.on('finish', () => settle({ kind: 'answered' }));
    incoming.pipe(response);
  });
  if (!options.hasBody) upstream.end();
  return promise;
}
