/** Is this HTTP/2 request one that every reader behind would read the same, and what does it say? */
import type { BodyLength, RequestHead } from '../exchange.ts';

/** Lower-case name, value, name, value …, as node:http2 gives it: pseudo fields first. */
export type RawFields = readonly string[];

export type Malformed = { readonly status: 400 | 414 | 501; readonly code: string; readonly message: string };

const maxTargetLength = 8_192;
/** RFC 9113 8.2.2. Not `te`, which may say `trailers`. */
const connectionFields = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const methodToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// eslint-disable-next-line no-control-regex
const fieldValue = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;
const pathText = /^[\x21\x22\x24-\x7e\x80-\xff]+$/;
const authorityText = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::\d{0,5})?$/;

/** A checked request. Cookies that came as several fields read as one. */
export class Http2Head implements RequestHead {
  readonly protocol = 'HTTP/2';
  readonly method: string;
  readonly target: string;
  /** As it came, for the backend's Host. */
  readonly authority: string;
  readonly host: string;
  readonly body: BodyLength;
  readonly upgrade: string | undefined;
  readonly fields: RawFields;

  constructor(options: {
    method: string;
    target: string;
    authority: string;
    body: BodyLength;
    upgrade: string | undefined;
    fields: RawFields;
  }) {
    this.method = options.method;
    this.target = options.target;
    this.authority = options.authority;
    this.host = hostOf(options.authority);
    this.body = options.body;
    this.upgrade = options.upgrade;
    this.fields = options.fields;
  }

  header(name: string): string | undefined {
    if (name === 'host') return this.authority === '' ? undefined : this.authority;
    let found: string | undefined;
    for (let i = 0; i < this.fields.length; i += 2) {
      if (this.fields[i] !== name) continue;
      const value = this.fields[i + 1] ?? '';
      found = found === undefined ? value : `${found}${name === 'cookie' ? '; ' : ', '}${value}`;
    }
    return found ?? (name === 'host' ? this.authority : undefined);
  }
}

/**
 * Refuses rather than repairs. nghttp2 has refused most of this before it gets here (RFC 9113 8.2, 8.3); what goes out as
 * HTTP/1.1 does not rest on that. `isWhole` says that no body follows.
 */
export function readRequest(fields: RawFields, isWhole: boolean): Http2Head | Malformed {
  let method = '';
  let path: string | undefined;
  let scheme: string | undefined;
  let authority: string | undefined;
  let protocol: string | undefined;
  let host: string | undefined;
  let length: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? '';
    const value = fields[i + 1] ?? '';
    if (!fieldValue.test(value)) return bad(`the value of ${printable(name)} has characters that a field may not have`);
    switch (name) {
      case ':method':
        method = value;
        break;
      case ':path':
        path = value;
        break;
      case ':scheme':
        scheme = value;
        break;
      case ':authority':
        authority = value;
        break;
      case ':protocol':
        protocol = value.toLowerCase();
        break;
      case 'host':
        if (host !== undefined) return bad('the request has more than one host');
        host = value;
        break;
      case 'content-length':
        if (length !== undefined || !/^\d{1,15}$/.test(value)) return bad('content-length is not one number');
        length = value;
        break;
      case 'te':
        if (value.toLowerCase() !== 'trailers') return bad('te may say nothing but trailers');
        break;
      default:
        if (connectionFields.has(name)) return bad(`${name} has no place in HTTP/2`);
        if (!token.test(name)) return bad(`${printable(name)} is not the name of a field`);
    }
  }
  if (!methodToken.test(method)) return bad('the method is not a token');
  if (method === 'CONNECT' && protocol === undefined) {
    return { status: 501, code: 'not-implemented', message: 'The router is no tunnel: it does not do CONNECT.' };
  }
  if (protocol !== undefined && (method !== 'CONNECT' || !token.test(protocol)))
    return bad(':protocol is only for CONNECT');
  // RFC 9113 3.1, as over HTTP/1: another connection of HTTP/2 within this one would be one that nobody looks into.
  if (protocol === 'h2c') return bad('h2c is no protocol to change to');
  if (scheme !== 'http' && scheme !== 'https') return bad('the scheme is neither http nor https');
  if (path === undefined || !pathText.test(path) || !(path.startsWith('/') || (path === '*' && method === 'OPTIONS'))) {
    return bad('the path is not one that can be routed');
  }
  if (path.length > maxTargetLength) {
    return { status: 414, code: 'uri-too-long', message: `The path is longer than ${maxTargetLength} characters.` };
  }
  if (authority !== undefined && host !== undefined && authority.toLowerCase() !== host.toLowerCase()) {
    return bad(':authority and host name different hosts');
  }
  const named = authority ?? host ?? '';
  if (named !== '' && !authorityText.test(named)) return bad('the host is not one that can be named');
  const bytes = length === undefined ? undefined : Number(length);
  if (isWhole && bytes !== undefined && bytes > 0) return bad('content-length announces a body that does not come');
  return new Http2Head({
    // What the backend is asked with: RFC 8441 maps to an upgrade by GET.
    method: protocol === undefined ? method : 'GET',
    target: path,
    authority: named,
    body: isWhole || bytes === 0 || protocol !== undefined ? 'none' : (bytes ?? 'until-end'),
    upgrade: protocol,
    fields,
  });
}

function bad(problem: string): Malformed {
  return { status: 400, code: 'bad-request', message: `The router refuses this request: ${problem}.` };
}

function printable(name: string): string {
  return JSON.stringify(name.slice(0, 60));
}

/** Lower case, without port and final dot. */
function hostOf(authority: string): string {
  const host = authority.replace(/:\d*$/, '').toLowerCase();
  return host.endsWith('.') ? host.slice(0, -1) : host;
}
