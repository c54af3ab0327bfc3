/** How do heads read on the other side, where one speaks HTTP/1 and the other HTTP/2? */
import { STATUS_CODES } from 'node:http';
import type { Fields } from '../exchange.ts';
import { Http2Head } from '../http2/request.ts';
import type { Http1RequestHead } from './request-head.ts';

/** What ends at this hop is left out (RFC 9113 8.2.2); of `te` that remains which HTTP/2 knows. */
export function asHttp2(head: Http1RequestHead): Http2Head {
  const all: string[] = [];
  const { fields, named } = head;
  for (let i = 0; i < fields.count; i += 1) {
    if (fields.kind(i) !== 'plain') continue;
    const name = fields.name(i);
    if (named?.includes(name) !== true) all.push(name, fields.value(i));
  }
  if (/(?:^|,)\s*trailers\s*(?:$|[,;])/i.test(head.header('te') ?? '')) all.push('te', 'trailers');
  return new Http2Head({
    method: head.method,
    target: head.target,
    authority: head.header('host') ?? '',
    body: head.body,
    upgrade: undefined,
    fields: all,
  });
}

/** The head of an answer for an HTTP/1 client. `framing` is lines of its own, as `added` is fields of the router's. */
export function asHttp1(status: number, fields: Fields, added: Fields, framing: string): string {
  let out = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  const said = new Set<string>();
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? '';
    said.add(name);
    if (name !== 'content-length' || (status !== 204 && status >= 200)) out += `${name}: ${fields[i + 1] ?? ''}\r\n`;
  }
  for (let i = 0; i + 1 < added.length; i += 2) {
    const name = (added[i] ?? '').toLowerCase();
    // What the backend says itself stands, but for cookies, of which there can be several.
    if (name === 'set-cookie' || !said.has(name)) out += `${name}: ${added[i + 1]}\r\n`;
  }
  return `${out}${framing}\r\n`;
}
