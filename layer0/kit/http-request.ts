/** What a request gives its handler: every part checked by the route before the handler sees it. */
import type { IncomingMessage } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import { z } from 'zod';
import { FlynnError } from './errors.ts';
import type { Route } from './routes.ts';

const jsonLimitBytes = 4 * 1024 * 1024;
/** Who sends a JSON body slower than this keeps a place for nothing. */
const bodyDeadlineMs = 30_000;

/** `isStrict` refuses fields that the route's schemas do not know: a misspelt one must not be ignored silently. */
export type ReadOptions = Readonly<{ isStrict?: boolean; bodyDeadlineMs?: number }>;

export function readQuery(route: Route, query: unknown, options: ReadOptions = {}): unknown {
  return route.query === undefined ? undefined : check(route, 'query', route.query, query, options);
}

export async function readBody(route: Route, request: IncomingMessage, options: ReadOptions = {}): Promise<unknown> {
  if (route.body === undefined) return undefined;
  if (route.body === 'stream') return bodyStream(request);
  return check(route, 'body', route.body, parseJson(route, await readText(route, request, options)), options);
}

function check(
  route: Route,
  part: 'query' | 'body',
  schema: z.ZodType,
  value: unknown,
  { isStrict = false }: ReadOptions,
): unknown {
  const parsed = schema.safeParse(value);
  if (!parsed.success) {
    throw new FlynnError('invalid', `the ${part} of ${nameOf(route)} is not valid:\n${z.prettifyError(parsed.error)}`, {
      cause: parsed.error,
      detail: { issues: parsed.error.issues.map(({ path, message }) => ({ path: path.join('.'), message })) },
    });
  }
  const unknown = isStrict ? droppedFields(value, parsed.data) : [];
  if (unknown.length === 0) return parsed.data;
  throw new FlynnError(
    'invalid',
    `the ${part} of ${nameOf(route)} has fields it does not know: ${unknown.slice(0, 10).join(', ')}`,
    { detail: { unknown: unknown.slice(0, 100) } },
  );
}

/** Paths of the fields that parsing left out. */
function droppedFields(given: unknown, parsed: unknown, path = ''): string[] {
  if (typeof given !== 'object' || given === null || typeof parsed !== 'object' || parsed === null) return [];
  const kept = new Map(Object.entries(parsed));
  return Object.entries(given).flatMap(([name, value]) => {
    const at = path === '' ? name : `${path}.${name}`;
    return kept.has(name) ? droppedFields(value, kept.get(name), at) : [at];
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

async function readText(route: Route, request: IncomingMessage, options: ReadOptions): Promise<string> {
  const tooLarge = new FlynnError(
    'invalid',
    `the body of ${nameOf(route)} is larger than ${jsonLimitBytes / 1024 / 1024} MB`,
  );
  if (Number(request.headers['content-length'] ?? 0) > jsonLimitBytes) throw tooLarge;
  const chunks: Buffer[] = [];
  let bytes = 0;
  // The request itself stays intact when we stop early: destroying it would take the connection and the answer with it.
  const body = bodyStream(request);
  const limitMs = options.bodyDeadlineMs ?? bodyDeadlineMs;
  const late = new FlynnError('timeout', `the body of ${nameOf(route)} did not arrive within ${limitMs / 1_000} s`);
  const timer = setTimeout(() => body.destroy(late), limitMs);
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > jsonLimitBytes) throw tooLarge;
      chunks.push(chunk);
    }
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/**
 * The body as a stream that may be destroyed without losing the connection the answer goes out on. It fails with
 * `cancelled` when the client goes away before having sent everything.
 */
export function bodyStream(request: IncomingMessage): Readable {
  const body = new PassThrough();
  // A handler that does not read yet finds it failed when it does; without this the process would end by it.
  body.on('error', () => undefined);
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
