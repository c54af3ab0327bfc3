/** Which fields go on to the next hop, in one shape for HTTP/1.1 and HTTP/2? */
import type { Exchange, Fields } from '../exchange.ts';
import { mayFollowBody } from '../trailers.ts';
import type { Http1ResponseHead } from '../http1/response-head.ts';
import type { Http2Head, RawFields } from './request.ts';

/** RFC 9110 7.6.1 and what HTTP/2 forbids besides. Never in a message to an HTTP/2 peer. */
const perConnection = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'transfer-encoding',
  'upgrade',
  'te',
]);

/** The client's fields that the backend gets; without host, expect and what frames the body. */
export function forEachClientField(
  head: Http2Head,
  { removedFields }: Pick<Exchange, 'removedFields'>,
  add: (name: string, value: string) => void,
): void {
  const { fields } = head;
  let cookies = '';
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? '';
    if (name.startsWith(':') || name === 'host' || name === 'content-length' || name === 'expect') continue;
    if (perConnection.has(name) || removedFields.has(name)) continue;
    // RFC 9113 8.2.3: crumbs become one field again.
    if (name === 'cookie') cookies = cookies === '' ? (fields[i + 1] ?? '') : `${cookies}; ${fields[i + 1] ?? ''}`;
    else add(name, fields[i + 1] ?? '');
  }
  if (cookies !== '') add('cookie', cookies);
}

/** An answer's fields for an HTTP/2 client. */
export function answerFields(fields: RawFields): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? '';
    if (!name.startsWith(':') && !perConnection.has(name)) kept.push(name, fields[i + 1] ?? '');
  }
  return kept;
}

/** The same of an HTTP/1 answer, whose Connection may name others that end here. */
export function http1AnswerFields({ fields, named }: Pick<Http1ResponseHead, 'fields' | 'named'>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.count; i += 1) {
    const name = fields.name(i);
    if (perConnection.has(name) || named?.includes(name) === true) continue;
    kept.push(name, fields.value(i));
  }
  return kept;
}

export function trailerFields(fields: RawFields): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? '';
    if (!name.startsWith(':') && mayFollowBody(name)) kept.push(name, fields[i + 1] ?? '');
  }
  return kept;
}

/** How much of SETTINGS_MAX_HEADER_LIST_SIZE they are (RFC 9113 6.5.2). */
export function listBytes(fields: Fields): number {
  let bytes = 16 * fields.length;
  for (const text of fields) bytes += text.length;
  return bytes;
}

/** For the calls of node:http2 that take nothing but objects. */
export function objectOf(fields: Fields): Record<string, string | string[]> {
  const object: Record<string, string | string[]> = {};
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? '';
    const value = fields[i + 1] ?? '';
    const earlier = Object.hasOwn(object, name) ? object[name] : undefined;
    object[name] = earlier === undefined ? value : [earlier, value].flat();
  }
  return object;
}
