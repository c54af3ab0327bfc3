/** Says an answer to an HTTP/2 client. */
import { constants } from 'node:http2';
import type { ServerHttp2Stream } from 'node:http2';
import type { Answer, Fields } from '../exchange.ts';
import type { Extent } from './attempt.ts';

/**
 * False if the client is gone, or the fields are not fit to be sent. Of an open-ended body the end is said by `wantTrailers`
 * alone: broken off right after a piece, it would otherwise look whole to the client.
 */
export function sendHead(
  stream: ServerHttp2Stream,
  options: { status: number; fields: string[]; added: Fields; extent: Extent },
): boolean {
  if (stream.destroyed || stream.closed || stream.headersSent) return false;
  const { status, fields, added, extent } = options;
  try {
    stream.respond([':status', String(status), ...fields, ...added], {
      endStream: extent === 'none',
      waitForTrailers: extent === 'open',
    });
    return true;
  } catch {
    return false;
  }
}

/** The router's own. What the client has still to send is not asked for. Answers the bytes of the body. */
export function sendAnswer(stream: ServerHttp2Stream, answer: Answer, isHead: boolean): number {
  const body = Buffer.from(answer.body);
  const fields = [...answer.fields];
  const says = (name: string) => fields.some((field, i) => i % 2 === 0 && field.toLowerCase() === name);
  if (!says('content-length')) fields.push('content-length', String(body.length));
  if (answer.code !== '' && !says('x-flynn-error')) fields.push('x-flynn-error', answer.code);
  const isWhole = isHead || body.length === 0;
  if (!sendHead(stream, { status: answer.status, fields, added: [], extent: isWhole ? 'none' : 'length' })) return 0;
  if (!isWhole) stream.end(body);
  closeWhenSent(stream);
  return isWhole ? 0 : body.length;
}

/** RFC 9113 8.1: a whole answer before the whole request is followed by a reset that is no error. */
export function closeWhenSent(stream: ServerHttp2Stream): void {
  if (stream.readableEnded || stream.endAfterHeaders) return;
  // It is not over before it has been read to its end.
  stream.resume();
  stream.close(constants.NGHTTP2_NO_ERROR);
}
