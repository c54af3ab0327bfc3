/** Heads as node:http has them, read and rewritten by the same rules as the fast front's. */
import type { IncomingMessage } from 'node:http';
import type { Exchange, Fields } from '../exchange.ts';
import { HeadProblem } from '../http1/fields.ts';
import { readRequestHead } from '../http1/request-head.ts';
import type { Http1RequestHead } from '../http1/request-head.ts';
import { readResponseHead } from '../http1/response-head.ts';
import { requestHeadFor, responseHeadFor } from '../http1/rewrite.ts';

/** Name, value, name, value … as Node keeps them, so that order, case and repetition survive. */
export type RawHeaders = string[];

export function requestHeadOf(request: IncomingMessage): Http1RequestHead | HeadProblem {
  const first = `${request.method ?? ''} ${request.url ?? ''} HTTP/${request.httpVersion}`;
  return readRequestHead(textOf(first, request.rawHeaders)) ?? new HeadProblem(400, 'bad-request', 'There is no head.');
}

export function requestHeadersFor(head: Http1RequestHead, exchange: Exchange): RawHeaders {
  return rawOf(requestHeadFor(head, exchange));
}

/** Undefined for a head that may not be passed on. */
export function responseHeadersFor(answer: IncomingMessage, added: Fields): RawHeaders | undefined {
  const first = `HTTP/${answer.httpVersion} ${answer.statusCode} ${answer.statusMessage ?? ''}`;
  const head = readResponseHead(textOf(first, answer.rawHeaders));
  return head === undefined || head instanceof HeadProblem ? undefined : rawOf(responseHeadFor(head, added, ''));
}

function textOf(first: string, raw: readonly string[]): string {
  let text = `${first}\r\n`;
  for (let i = 0; i + 1 < raw.length; i += 2) text += `${raw[i]}: ${raw[i + 1]}\r\n`;
  return `${text}\r\n`;
}

function rawOf(text: string): RawHeaders {
  const lines = text
    .split('\r\n')
    .slice(1)
    .filter((line) => line !== '');
  return lines.flatMap((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]);
}
