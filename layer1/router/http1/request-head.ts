/** What does the head of a request say (RFC 9112)? Pure; strict: it refuses rather than repairs. */
import type { BodyLength, RequestHead } from '../exchange.ts';
import {
  badRequest,
  ConnectionList,
  HeadFields,
  headLimits,
  HeadProblem,
  headTooLarge,
  isTarget,
  isToken,
  lengthIn,
} from './fields.ts';

const targetTooLong = new HeadProblem(
  414,
  'target-too-long',
  `The first line of the request has more than ${headLimits.lineBytes} bytes.`,
);
const unknownVersion = new HeadProblem(505, 'unknown-version', 'The router speaks HTTP/1.1 and HTTP/1.0 here.');
const unknownCoding = new HeadProblem(501, 'unknown-coding', 'The only transfer coding understood here is chunked.');
const noTunnels = new HeadProblem(501, 'no-tunnels', 'The router makes no tunnels: CONNECT is not for it.');
const unknownExpectation = new HeadProblem(
  417,
  'unknown-expectation',
  'The only expectation understood here is 100-continue.',
);

export class Http1RequestHead implements RequestHead {
  method = '';
  target = '';
  host = '';
  protocol: 'HTTP/1.0' | 'HTTP/1.1' = 'HTTP/1.1';
  body: BodyLength = 'none';
  upgrade: string | undefined = undefined;
  /** Of the head, with the empty line before it if there was one. */
  bytes = 0;
  /** Where its first line begins, and the next. */
  start = 0;
  lineEnd = 0;
  /** Its first line says what was understood, in the same way as it is said to a backend. */
  isLinePlain = false;
  keepsAlive = true;
  expectsContinue = false;
  /** What Connection names besides. */
  named: readonly string[] | undefined = undefined;
  readonly fields = new HeadFields();

  header(name: string): string | undefined {
    return this.fields.get(name);
  }
}

/**
 * `text` is whole lines in latin1, a byte a character; perhaps it is known of which bytes it was made, from where on.
 * Undefined if the empty line is still to come.
 */
export function readRequestHead(
  text: string,
  bytes?: Uint8Array,
  from?: number,
): Http1RequestHead | HeadProblem | undefined {
  const head = new Http1RequestHead();
  // One empty line before a request is left by clients that end a body with it (RFC 9112 2.2).
  const start = text.startsWith('\r\n') ? 2 : 0;
  if (start === text.length) return undefined;
  let i = start;
  while (isToken[text.charCodeAt(i)] === 1) i += 1;
  if (i === start || text.charCodeAt(i) !== 0x20) return faultInLine(text, start, 'it does not begin with a method');
  head.method = text.slice(start, i);
  const targetStart = i + 1;
  i = targetStart;
  while (isTarget[text.charCodeAt(i)] === 1) i += 1;
  if (i === targetStart || text.charCodeAt(i) !== 0x20) return faultInLine(text, start, 'its target is not a URL');
  const target = text.slice(targetStart, i);
  if (text.startsWith('HTTP/1.1\r\n', i + 1)) head.protocol = 'HTTP/1.1';
  else if (text.startsWith('HTTP/1.0\r\n', i + 1)) head.protocol = 'HTTP/1.0';
  else {
    const isVersion = /^HTTP\/\d\.\d\r\n$/.test(text.slice(i + 1, i + 11));
    const fault = faultInLine(text, start, 'its first line is not one of HTTP/1');
    return isVersion && fault !== targetTooLong ? unknownVersion : fault;
  }
  if (i + 11 - start > headLimits.lineBytes) return targetTooLong;
  head.start = start;
  head.lineEnd = i + 11;
  const end = head.fields.read(text, head.lineEnd, bytes, from);
  if (typeof end !== 'number') return end;
  if (end > headLimits.bytes) return headTooLarge;
  head.bytes = end;
  return understand(head, target);
}

/** What is refused already of an unfinished line; the same as when the whole of it is there. */
export function problemOfPartialRequest(text: string): HeadProblem | undefined {
  const start = text.startsWith('\r\n') ? 2 : 0;
  const code = text.charCodeAt(start);
  // A TLS client at this port would else wait for ever.
  if (text.length > start && code !== 13 && isToken[code] !== 1) return badRequest('it does not begin with a method');
  if (text.length - start > headLimits.lineBytes && !text.includes('\n', start)) return targetTooLong;
  return text.length > headLimits.bytes ? headTooLarge : undefined;
}

function faultInLine(text: string, start: number, what: string): HeadProblem {
  return text.indexOf('\n', start) - start >= headLimits.lineBytes ? targetTooLong : badRequest(what);
}

function understand(head: Http1RequestHead, target: string): Http1RequestHead | HeadProblem {
  const { fields } = head;
  let host: string | undefined;
  let length: number | undefined;
  let coding: string | undefined;
  let connection: ConnectionList | undefined;
  let upgrade: string | undefined;
  for (let i = 0; i < fields.count; i += 1) {
    switch (fields.kind(i)) {
      case 'host':
        if (host !== undefined) return badRequest('it has more than one Host');
        host = fields.value(i);
        break;
      case 'length':
        if (length !== undefined) return badRequest('it has more than one Content-Length');
        length = lengthIn(fields.value(i));
        if (length === undefined) return badRequest('Content-Length is not one number');
        break;
      case 'coding':
        if (coding !== undefined) return badRequest('it has more than one Transfer-Encoding');
        coding = fields.value(i).toLowerCase();
        break;
      case 'connection':
        connection ??= new ConnectionList();
        connection.add(fields.value(i));
        break;
      case 'upgrade':
        upgrade = upgrade === undefined ? fields.value(i).toLowerCase() : `${upgrade}, ${fields.value(i)}`;
        break;
      case 'expect':
        if (fields.value(i).toLowerCase() !== '100-continue') return unknownExpectation;
        head.expectsContinue = head.protocol === 'HTTP/1.1';
        break;
      case 'hop':
      case 'plain':
        break;
    }
  }
  if (coding !== undefined) {
    if (length !== undefined || head.protocol === 'HTTP/1.0') return badRequest('the length of its body is ambiguous');
    if (coding !== 'chunked') return unknownCoding;
    head.body = 'until-end';
  } else if (length !== undefined && length > 0) head.body = length;
  if (head.body === 'none') head.expectsContinue = false;
  if (host === undefined && head.protocol === 'HTTP/1.1') return badRequest('it has no Host');
  const name = hostName(host ?? '');
  if (name === undefined) return badRequest('Host is not a host name');
  head.host = name;
  if (head.method === 'CONNECT') return noTunnels;
  const origin = originForm(target, head.method, host ?? '');
  if (origin === undefined) return badRequest('its target is not one that can be routed');
  head.target = origin;
  head.isLinePlain = origin === target && head.protocol === 'HTTP/1.1';
  if (connection === undefined) head.keepsAlive = head.protocol === 'HTTP/1.1';
  else {
    head.keepsAlive = !connection.isClose && (head.protocol === 'HTTP/1.1' || connection.isKeepAlive);
    head.named = connection.named;
    // Asking for HTTP/2 this way is obsolete, and may be answered over HTTP/1.1 (RFC 9110 7.8, RFC 9113 3.1).
    const isAsked = connection.isUpgrade && head.protocol === 'HTTP/1.1' && head.method === 'GET';
    if (isAsked && upgrade !== undefined && upgrade !== '' && !/\bh2c\b/.test(upgrade)) {
      head.upgrade = upgrade;
      // If it is not granted: what the client may have said already in the other protocol must not be read as requests.
      head.keepsAlive = false;
    }
  }
  if (head.upgrade !== undefined && head.body !== 'none') return badRequest('it asks for an upgrade and has a body');
  return head;
}

/** Absolute targets (RFC 9112 3.2.2) are fine as long as they say the same as Host; `*` asks about the server itself. */
function originForm(target: string, method: string, host: string): string | undefined {
  if (target.charCodeAt(0) === 0x2f) return target;
  if (target === '*') return method === 'OPTIONS' ? target : undefined;
  const [, authority, path] = /^https?:\/\/([^/?#@]+)([/?][^#]*)?$/i.exec(target) ?? [];
  if (authority === undefined || authority.toLowerCase() !== host.toLowerCase()) return undefined;
  return path === undefined ? '/' : path.startsWith('?') ? `/${path}` : path;
}

/** Nearly every request has the Host of one before. */
let lastHost = '';
let lastName = '';

/** Lower case, without port and final dot. Undefined for what is no host. */
function hostName(host: string): string | undefined {
  if (host === '') return '';
  if (host === lastHost) return lastName;
  const [, name] =
    /^(\[[0-9a-f:.]+\]|[a-z0-9_~!$&'()*+;=%-]+(?:\.[a-z0-9_~!$&'()*+;=%-]+)*)\.?(?::\d{0,5})?$/i.exec(host) ?? [];
  if (name === undefined) return undefined;
  lastHost = host;
  lastName = name.toLowerCase();
  return lastName;
}
