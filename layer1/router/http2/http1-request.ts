/** What does a request read like for an HTTP/1.1 backend? */
import type { UpstreamRequest } from './attempt.ts';
import { forEachClientField } from './fields.ts';

const withoutBody = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE']);

/** The whole head. Latin1, as node:http2 gives fields. The frame of the body is stated for every method that might have one. */
export function requestText({ head, exchange }: UpstreamRequest, upgradeKey: string): string {
  let text = `${head.method} ${exchange.target} HTTP/1.1\r\nhost: ${head.authority}\r\n`;
  forEachClientField(head, exchange, (name, value) => {
    if (head.upgrade === undefined || !name.startsWith('sec-websocket-key')) text += `${name}: ${value}\r\n`;
  });
  text += exchange.requestLines;
  if (head.upgrade !== undefined) {
    text += `connection: Upgrade\r\nupgrade: ${head.upgrade}\r\n`;
    if (head.upgrade === 'websocket') text += `sec-websocket-key: ${upgradeKey}\r\n`;
  } else if (head.body === 'until-end') text += 'transfer-encoding: chunked\r\n';
  else if (head.body !== 'none') text += `content-length: ${head.body}\r\n`;
  else if (!withoutBody.has(head.method)) text += 'content-length: 0\r\n';
  return `${text}\r\n`;
}
