/** `/api`: what a page asks of the controller goes there as the act of who is logged in, and nothing else of the browser's does. */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { bodyStream } from '@flynn/kit/http-request';
import { ofData } from './answer.ts';
import { type Person, authorized } from './sessions.ts';

export const apiPath = '/api';

const methods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);
/** What waits for something to happen answers within 20 s. */
const headMs = 60_000;
/** With a body, all of which has to have come before. */
const uploadMs = 15 * 60_000;

const passedOn = ['accept', 'content-type', 'idempotency-key', 'if-match', 'last-event-id', 'user-agent'] as const;
const passedBack = ['content-length', 'retry-after', 'x-request-id', 'etag'] as const;

/** What the controller's API answers. As anything else a browser could be talked into showing it, or running it. */
const types: ReadonlySet<string> = new Set([
  'application/json',
  'application/octet-stream',
  'application/x-ndjson',
  'application/x-tar',
  'text/event-stream',
  'text/plain',
]);

/** Those that last: they end when this server closes, and pages go on with another. */
const lasting: ReadonlySet<string> = new Set(['application/x-ndjson', 'text/event-stream']);

/**
 * The path and query for the controller, of a request's URL as it was written. `invalid` for one that means another path than it
 * says: whatever reads it next is not to decide again what it leads to.
 */
export function targetOf(url: string): string {
  const target = url.slice(apiPath.length);
  const [path = ''] = target.split('?', 1);
  const isOwn = url.startsWith(apiPath) && (path === '' || path.startsWith('/'));
  const hasDots = path.split('/').some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment));
  const isPlain = /^[\w\-.~!$&'()*+,;=:@%/]*$/.test(path) && /^[\x21\x22\x24-\x7e]*$/.test(target.slice(path.length));
  if (isOwn && isPlain && !hasDots) return path === '' ? `/${target}` : target;
  throw new FlynnError('invalid', 'this is no path of the API: it has to be written as it is meant');
}

/** Of the browser's headers those that the API reads, and what says where it asks from. */
export function headersFor(
  headers: IncomingHttpHeaders,
  { address, requestId }: Readonly<{ address: string; requestId: string }>,
): Record<string, string> {
  const own = passedOn.flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  // The audit trail takes the last address, as the router writes it: the person's.
  return { ...Object.fromEntries(own), 'x-forwarded-for': address, 'x-request-id': requestId };
}

export function headersBack(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const type = typeOf(headers);
  const known = passedBack.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]] as const]));
  const isKnown = type !== undefined && types.has(type);
  const shown = isKnown ? headers['content-type'] : 'application/octet-stream';
  return {
    ...Object.fromEntries(known),
    ...ofData,
    ...(type === undefined ? {} : { 'content-type': shown }),
    // Tells buffering proxies in between to pass each event on at once.
    ...(type !== undefined && lasting.has(type) ? { 'x-accel-buffering': 'no' } : {}),
  };
}

function typeOf(headers: IncomingHttpHeaders): string | undefined {
  return headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
}

/**
 * Resolves when the answer is out, or either side has gone; each is ended then. `closing`: this server's. Throws before the
 * answer's head only.
 */
export async function forward(
  controller: Pick<HttpClient, 'forward'>,
  { request, response, person, closing }: Asked,
): Promise<void> {
  const { method = 'GET', url = '' } = request;
  if (!methods.has(method)) throw new FlynnError('invalid', `the API knows no ${method}`);
  const path = targetOf(url);
  using gone = goneSignal(response);
  const body = hasBody(request) ? bodyStream(request) : undefined;
  const answer = await controller.forward(
    { method, path, body },
    {
      signal: gone.signal,
      timeoutMs: body === undefined ? headMs : uploadMs,
      headers: { ...authorized(person), ...lengthOf(request, body) },
    },
  );
  response.writeHead(answer.statusCode ?? 502, headersBack(answer.headers));
  response.flushHeaders();
  const until = lasting.has(typeOf(answer.headers) ?? '') ? AbortSignal.any([gone.signal, closing]) : gone.signal;
  await pipeline(answer, response, { signal: until }).catch(() => {
    // A cut connection is the only way left to say that this was not all.
    answer.destroy();
    response.destroy();
  });
}

export type Asked = Readonly<{
  request: IncomingMessage;
  response: ServerResponse;
  person: Person;
  closing: AbortSignal;
}>;

function hasBody({ headers, method }: IncomingMessage): boolean {
  if (method === 'GET' || method === 'HEAD') return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** As it was announced, so that a body which ends early is not taken for a whole one. */
function lengthOf({ headers }: IncomingMessage, body: Readable | undefined): Record<string, string> {
  const length = headers['content-length'];
  return body === undefined || length === undefined ? {} : { 'content-length': length };
}

function goneSignal(response: ServerResponse): Disposable & { signal: AbortSignal } {
  const gone = new AbortController();
  const onClose = () => {
    if (!response.writableFinished) gone.abort(new FlynnError('cancelled', 'the browser went away'));
  };
  response.once('close', onClose);
  if (response.closed) onClose();
  return { signal: gone.signal, [Symbol.dispose]: () => response.off('close', onClose) };
}
