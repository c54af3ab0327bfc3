/** Server-sent events (HTML standard, section 9.2), writing and reading, with JSON as data. */
import type { Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { FlynnError, asFlynnError, isErrorCode } from './errors.ts';
import type { ServerEvent } from './routes.ts';
import { type Limits, nextChunk } from './silence.ts';

/** The server says something at least this often, so that silence means a dead connection. */
export const heartbeatMs = 15_000;
export const heartbeat = ': still here\n\n';

/** A stream that fails after its head was sent tells its error in an event of this name and ends. */
const failureEvent = 'flynn-stream-failed';

export function encodeEvent({ id, event, data }: ServerEvent): string {
  const idLine = id === undefined ? '' : `id: ${oneLine(id)}\n`;
  return `${idLine}event: ${oneLine(event)}\ndata: ${JSON.stringify(data ?? null)}\n\n`;
}

function oneLine(text: string): string {
  return text.replaceAll(/[\r\n\0]/g, ' ');
}

export function encodeFailure(error: unknown): string {
  const { code, message, detail } = asFlynnError(error);
  return encodeEvent({ event: failureEvent, data: { code, message, detail } });
}

/** Events out of the bytes of a response; chunks may be cut anywhere. Throws the error a failed stream ended with. */
export async function* readEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const events: ServerEvent[] = [];
  const parser = createParser({
    onEvent({ id, event = 'message', data }) {
      events.push({ ...(id === undefined ? {} : { id }), event, data: JSON.parse(data) });
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    try {
      parser.feed(decoder.decode(chunk, { stream: true }));
    } catch (error) {
      throw new FlynnError('internal', 'the event stream holds something that is not an event', { cause: error });
    }
    for (const event of events.splice(0)) {
      if (event.event === failureEvent) throw failureOf(event.data);
      yield event;
    }
  }
}

/** The body's chunks, until the reader leaves or a silence of the body ends them with an error. The body goes with them. */
export async function* untilSilent(body: Readable, limits: Limits): AsyncGenerator<Uint8Array> {
  const chunks: AsyncIterator<Buffer> = body.iterator();
  try {
    for (;;) {
      const { done, value } = await nextChunk(body, chunks, limits);
      if (done === true) return;
      yield value;
    }
  } finally {
    body.destroy();
  }
}

function failureOf(data: unknown): FlynnError {
  return remoteError(data) ?? new FlynnError('internal', 'the event stream failed without saying why');
}

/** The error in a JSON error body, if that is what it is. */
export function remoteError(body: unknown): FlynnError | undefined {
  if (typeof body !== 'object' || body === null || !('code' in body) || !('message' in body)) return undefined;
  if (!isErrorCode(body.code) || typeof body.message !== 'string') return undefined;
  const detail = 'detail' in body && typeof body.detail === 'object' && body.detail !== null ? { ...body.detail } : {};
  return new FlynnError(body.code, body.message, { detail });
}
