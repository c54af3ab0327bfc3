/** What a request gives its handler: every part checked by the route before the handler sees it. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import { z } from 'zod';
import { FlynnError } from './errors.ts';
import { isSameSecret } from './secrets.ts';
import type { Route } from './routes.ts';

const jsonLimitBytes = 4 * 1024 * 1024;

/** Accepts a bearer token or the password of basic authentication. Every key is compared, whichever matches. */
export function checkKey(headers: IncomingHttpHeaders, keys: readonly string[]): void {
  const given = keyOf(headers.authorization);
  if (given === undefined) {
    throw new FlynnError('unauthenticated', 'this needs a key: send it as "Authorization: Bearer KEY"');
  }
  const matches = keys.filter((key) => isSameSecret(key, given));
  if (matches.length === 0) throw new FlynnError('unauthenticated', 'the key that was sent is not a valid one');
}

function keyOf(authorization: string | undefined): string | undefined {
  const [, scheme, value] = /^(bearer|basic) +(\S+)$/i.exec(authorization ?? '') ?? [];
  if (scheme === undefined || value === undefined) return undefined;
  if (scheme.toLowerCase() === 'bearer') return value;
  const pair = Buffer.from(value, 'base64').toString();
  const colon = pair.indexOf(':');
  return colon < 0 ? undefined : pair.slice(colon + 1);
}

export function readQuery(route: Route, query: unknown): unknown {
  return route.query === undefined ? undefined : check(route, 'query', route.query, query);
}

export async function readBody(route: Route, request: IncomingMessage): Promise<unknown> {
  if (route.body === undefined) return undefined;
  if (route.body === 'stream') return bodyStream(request);
  return check(route, 'body', route.body, parseJson(route, await readText(route, request)));
}

function check(route: Route, part: 'query' | 'body', schema: z.ZodType, value: unknown): unknown {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new FlynnError('invalid', `the ${part} of ${nameOf(route)} is not valid:\n${z.prettifyError(parsed.error)}`, {
    cause: parsed.error,
    detail: { issues: parsed.error.issues.map(({ path, message }) => ({ path: path.join('.'), message })) },
  });
}

function parseJson(route: Route, text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new FlynnError('invalid', `the body of ${nameOf(route)} is not JSON: ${why}`, { cause: error });
  }
}

async function readText(route: Route, request: IncomingMessage): Promise<string> {
  const tooLarge = new FlynnError(
    'invalid',
    `the body of ${nameOf(route)} is larger than ${jsonLimitBytes / 1024 / 1024} MB`,
  );
  if (Number(request.headers['content-length'] ?? 0) > jsonLimitBytes) throw tooLarge;
  const chunks: Buffer[] = [];
  let bytes = 0;
  // The request itself stays intact when we stop early: destroying it would take the connection and the answer with it.
  for await (const chunk of bodyStream(request)) {
    bytes += chunk.length;
    if (bytes > jsonLimitBytes) throw tooLarge;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/**
 * The body as a stream the handler may destroy without losing the connection the answer goes out on. It fails with
 * `cancelled` when the client goes away before having sent everything.
 */
function bodyStream(request: IncomingMessage): Readable {
  const body = new PassThrough();
  const gone = () => body.destroy(new FlynnError('cancelled', 'the client went away before it had sent everything'));
  request.once('error', gone);
  request.once('close', () => {
    if (!request.complete) gone();
  });
  body.once('close', () => {
    request.unpipe(body);
    request.resume();
  });
  return request.pipe(body);
}

function nameOf(route: Route): string {
  return `${route.method} ${route.path}`;
}
