/** How do heads go on? Runs of lines that stay as they are go on as one piece. */
import { STATUS_CODES } from 'node:http';
import type { Answer, Exchange, Fields } from '../exchange.ts';
import { nameBit } from './fields.ts';
import type { Http1RequestHead } from './request-head.ts';
import type { Http1ResponseHead } from './response-head.ts';

/** What the backend is asked. Its connection is kept unless something else is said. */
export function requestHeadFor(
  head: Http1RequestHead,
  exchange: Pick<Exchange, 'target' | 'requestLines' | 'removedFields'>,
): string {
  const { fields } = head;
  const { removedFields } = exchange;
  const removed = bitsOf(removedFields);
  const isLineKept = head.isLinePlain && exchange.target === head.target;
  let out = isLineKept ? '' : `${head.method} ${exchange.target} HTTP/1.1\r\n`;
  let from = isLineKept ? head.start : fields.count === 0 ? 0 : fields.lineStart(0);
  let to = isLineKept ? head.lineEnd : from;
  let hasLength = false;
  let hasHost = false;
  for (let i = 0; i < fields.count; i += 1) {
    const kind = fields.kind(i);
    let isKept = kind === 'plain' || kind === 'host' || kind === 'length';
    if (kind === 'length') hasLength = true;
    else if (kind === 'host') hasHost = true;
    if (kind === 'plain' || kind === 'host') {
      if ((removed & fields.bit(i)) !== 0 && removedFields.has(fields.name(i))) isKept = false;
      else if (head.named !== undefined && head.named.includes(fields.name(i))) isKept = false;
    }
    const lineEnd = fields.lineEnd(i);
    if (!isKept) {
      if (to > from) out += fields.text.slice(from, to);
      from = lineEnd;
    }
    to = lineEnd;
  }
  if (to > from) out += fields.text.slice(from, to);
  out += exchange.requestLines;
  if (!hasHost) out += 'host: \r\n';
  // The body's frame is stated for every method: a DELETE with a chunked body stays one message at the backend.
  if (head.body === 'until-end') out += 'transfer-encoding: chunked\r\n';
  else if (!hasLength && head.body === 'none' && !isUsuallyWithoutBody(head.method)) out += 'content-length: 0\r\n';
  if (head.upgrade !== undefined) out += `connection: Upgrade\r\nupgrade: ${head.upgrade}\r\n`;
  return out + '\r\n';
}

/** All requests share one set. */
let lastSet: ReadonlySet<string> = new Set();
let lastBits = 0;

function bitsOf(names: ReadonlySet<string>): number {
  if (names === lastSet) return lastBits;
  lastSet = names;
  lastBits = 0;
  for (const name of names) lastBits |= nameBit(name);
  return lastBits;
}

function isUsuallyWithoutBody(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'DELETE' || method === 'OPTIONS' || method === 'TRACE';
}

/** `framing` is lines of its own: those for the body and the connection to the client. */
export function responseHeadFor(head: Http1ResponseHead, added: Fields, framing: string): string {
  const { fields } = head;
  let out = head.isLinePlain ? '' : `HTTP/1.1 ${head.status}${head.reason === '' ? ' ' : head.reason}\r\n`;
  let from = head.isLinePlain ? 0 : head.lineEnd;
  let to = head.lineEnd;
  for (let i = 0; i < fields.count; i += 1) {
    const kind = fields.kind(i);
    const isKept =
      kind === 'plain' || kind === 'host'
        ? head.named === undefined || !head.named.includes(fields.name(i))
        : kind === 'length' && head.status !== 204 && head.status >= 200;
    const lineEnd = fields.lineEnd(i);
    if (!isKept) {
      if (to > from) out += fields.text.slice(from, to);
      from = lineEnd;
    }
    to = lineEnd;
  }
  if (to > from) out += fields.text.slice(from, to);
  for (let i = 0; i + 1 < added.length; i += 2) {
    const name = added[i] ?? '';
    const value = added[i + 1] ?? '';
    // What the backend says itself stands, but for cookies, of which there can be several.
    if (name === 'set-cookie' || !fields.has(name)) out += name + ': ' + value + '\r\n';
  }
  return out + framing + '\r\n';
}

/** How the client finds the end of an answer; `new-chunks` are made here, of a body that ended with its connection. */
export function frameFor(
  head: Http1ResponseHead,
  request: Http1RequestHead,
): 'length' | 'chunks' | 'new-chunks' | 'until-close' {
  const { framing } = head;
  if (request.method === 'HEAD' || framing === 'none' || framing === 'length') return 'length';
  if (request.protocol === 'HTTP/1.0') return 'until-close';
  return framing === 'chunked' ? 'chunks' : 'new-chunks';
}

/** What the router answers itself. */
export function answerText(answer: Answer, options: { isForHead: boolean; connection: string }): string {
  let out = `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}\r\n`;
  for (let i = 0; i + 1 < answer.fields.length; i += 2) out += `${answer.fields[i]}: ${answer.fields[i + 1]}\r\n`;
  if (answer.code !== '') out += `x-flynn-error: ${answer.code}\r\n`;
  const bytes = Buffer.byteLength(answer.body);
  out += `content-length: ${bytes}\r\ndate: ${new Date().toUTCString()}\r\n${options.connection}\r\n`;
  // Written as latin1, a byte a character.
  return options.isForHead ? out : out + Buffer.from(answer.body).toString('latin1');
}
