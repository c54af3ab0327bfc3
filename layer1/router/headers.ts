/** What of a message's head goes on to the next hop, and what is refused because two readers could read it differently? */
import type { IncomingMessage } from 'node:http';

/** Raw headers: name, value, name, value … as Node keeps them, so that order, case and repetition survive. */
export type RawHeaders = string[];

/** RFC 9110 7.6.1; the length of a body is framed anew, and Expect is answered by the router. */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
/** Naming these in Connection does not remove them: that would change what the message means. */
const endToEnd = new Set(['host', 'content-length', 'authorization', 'cookie', 'content-type']);
const setByRouter = new Set([
  'expect',
  'x-request-id',
  'x-request-start',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-port',
]);

function* pairsOf(raw: readonly string[]): Generator<[name: string, value: string]> {
  for (let i = 0; i + 1 < raw.length; i += 2) yield [raw[i] ?? '', raw[i + 1] ?? ''];
}

function removable(raw: readonly string[]): Set<string> {
  const names = new Set(hopByHop);
  for (const [name, value] of pairsOf(raw)) {
    if (name.toLowerCase() !== 'connection') continue;
    for (const token of value.split(',')) names.add(token.trim().toLowerCase());
  }
  for (const name of endToEnd) names.delete(name);
  return names;
}

export type RequestHead = Pick<IncomingMessage, 'method' | 'url' | 'httpVersion' | 'rawHeaders'>;

export type CheckedHead = {
  host: string | undefined;
  /** Path and query: what the backend gets. */
  target: string;
  body: 'none' | 'length' | 'chunked';
};

/**
 * Refuses, with a reason, heads that the parser lets through but whose meaning depends on who reads them. The parser
 * itself refuses bad tokens, Content-Length beside Transfer-Encoding, and repeated Content-Length.
 */
export function checkHead(request: RequestHead): CheckedHead | { problem: string; status: 400 | 501 } {
  const values = (wanted: string) =>
    [...pairsOf(request.rawHeaders)].filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value);
  const hosts = values('host');
  if (hosts.length > 1) return { problem: 'the request has more than one Host header', status: 400 };
  const codings = values('transfer-encoding');
  const lengths = values('content-length');
  if (codings.length > 0 && (codings.length > 1 || codings[0]?.trim().toLowerCase() !== 'chunked')) {
    return { problem: 'the only transfer coding understood here is chunked', status: 501 };
  }
  if (codings.length > 0 && (lengths.length > 0 || request.httpVersion !== '1.1')) {
    return { problem: 'the length of the request body is ambiguous', status: 400 };
  }
  const length = lengths[0] ?? '0';
  if (lengths.length > 1 || !/^\d{1,15}$/.test(length))
    return { problem: 'Content-Length is not one number', status: 400 };
  // Older and newer ones are framed otherwise; a later minor version is read as 1.1.
  if (!request.httpVersion.startsWith('1.')) return { problem: 'the router speaks HTTP/1.1 here', status: 400 };
  if (hosts[0] !== undefined && !/^[^:]*(?::\d{1,5})?$|^\[[\da-f:.]+\](?::\d{1,5})?$/i.test(hosts[0])) {
    return { problem: 'the port in Host is not one', status: 400 };
  }
  const form = originForm(request.url ?? '', hosts[0]);
  const isAsterisk = form === '*' && request.method !== 'OPTIONS';
  if (form === undefined || form.includes('#') || isAsterisk)
    return { problem: 'the request target is not one that can be routed', status: 400 };
  const body = codings.length > 0 ? 'chunked' : Number(length) > 0 ? 'length' : 'none';
  return { host: hosts[0], target: form, body };
}

/** Absolute targets (RFC 9112 3.2.2) are fine as long as they say the same as Host. */
function originForm(target: string, host: string | undefined): string | undefined {
  if (target.startsWith('/') || target === '*') return target;
  const [, authority, path] = /^https?:\/\/([^/?#@]+)([/?][^#]*)?$/i.exec(target) ?? [];
  if (authority === undefined || authority.toLowerCase() !== host?.toLowerCase()) return undefined;
  return path === undefined ? '/' : path.startsWith('?') ? `/${path}` : path;
}

export type Hop = {
  requestId: string;
  remoteAddress: string;
  localPort: number;
  nowMs: number;
};

/** The headers the router adds to what it sends on. */
export function addedHeaders(raw: readonly string[], hop: Hop): RawHeaders {
  const forwardedFor = [...pairsOf(raw)].filter(([name]) => name.toLowerCase() === 'x-forwarded-for').map(([, v]) => v);
  return Object.entries({
    'X-Request-Id': hop.requestId,
    'X-Request-Start': String(hop.nowMs),
    'X-Forwarded-For': [...forwardedFor, plainAddress(hop.remoteAddress)].join(', '),
    'X-Forwarded-Proto': 'http',
    'X-Forwarded-Port': String(hop.localPort),
  }).flat();
}

export function requestHeaders(request: RequestHead, body: CheckedHead['body'], hop: Hop): RawHeaders {
  const removed = removable(request.rawHeaders);
  const headers: RawHeaders = [];
  for (const [name, value] of pairsOf(request.rawHeaders)) {
    const lower = name.toLowerCase();
    if (removed.has(lower) || setByRouter.has(lower) || lower === 'content-length') continue;
    headers.push(name, value);
  }
  headers.push(...addedHeaders(request.rawHeaders, hop));
  // The body's frame is stated for every method: a DELETE with a chunked body stays one message at the backend.
  if (body === 'chunked') headers.push('Transfer-Encoding', 'chunked');
  else if (body === 'length') headers.push('Content-Length', lengthOf(request.rawHeaders));
  else if (!isUsuallyWithoutBody(request.method)) headers.push('Content-Length', '0');
  return headers;
}

function lengthOf(raw: readonly string[]): string {
  return [...pairsOf(raw)].find(([name]) => name.toLowerCase() === 'content-length')?.[1] ?? '0';
}

export function isUsuallyWithoutBody(method: string | undefined): boolean {
  return ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'].includes(method ?? 'GET');
}

export function responseHeaders(raw: readonly string[], requestId: string): RawHeaders {
  const removed = removable(raw);
  const headers: RawHeaders = [];
  let hasRequestId = false;
  for (const [name, value] of pairsOf(raw)) {
    const lower = name.toLowerCase();
    if (removed.has(lower)) continue;
    hasRequestId ||= lower === 'x-request-id';
    headers.push(name, value);
  }
  return hasRequestId ? headers : [...headers, 'X-Request-Id', requestId];
}

/** An id the client gave is kept if it is safe to put anywhere. */
export function requestIdOf(given: string | string[] | undefined, newId: () => string): string {
  return typeof given === 'string' && /^[A-Za-z0-9._+=/-]{20,200}$/.test(given) ? given : newId();
}

function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}
