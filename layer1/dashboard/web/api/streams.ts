/** Server-sent events and lines of JSON out of the bytes of an answer; chunks may be cut anywhere. */
import { createParser } from 'eventsource-parser';
import { Failure, failureOf } from './failure.ts';

export type StreamEvent = Readonly<{ id?: string | undefined; event: string; data: unknown }>;

/** As kit/sse.ts tells that a stream failed after its head was sent. */
const failureEvent = 'flynn-stream-failed';

/** Servers say something every 15 s. */
const silenceMs = 45_000;

/** Throws the Failure that the stream ended with. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const events: StreamEvent[] = [];
  const parser = createParser({
    onEvent: ({ id, event = 'message', data }) => void events.push({ id, event, data: JSON.parse(data) }),
  });
  const decoder = new TextDecoder();
  for await (const chunk of untilSilent(body)) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    for (const event of events.splice(0)) {
      if (event.event === failureEvent) throw failureOf(500, event.data);
      yield event;
    }
  }
}

/** Empty lines, which only keep the connection, are left out. */
export async function* readLines(body: ReadableStream<Uint8Array>, silence = silenceMs): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of untilSilent(body, silence)) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line !== '') yield line;
  }
  if (rest !== '') yield rest;
}

/** Throws `unavailable` when nothing came for so long: the connection is dead, whatever the browser thinks of it. */
async function* untilSilent(body: ReadableStream<Uint8Array>, ms = silenceMs): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  let isSilent = false;
  const fallSilent = () => {
    isSilent = true;
    letGo(reader);
  };
  try {
    for (;;) {
      // Only while it is waited for: how long the reader takes is no silence of the server.
      const timer = setTimeout(fallSilent, ms);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (isSilent) throw new Failure('unavailable', 'the connection fell silent');
      if (done) return;
      yield value;
    }
  } finally {
    letGo(reader);
  }
}

/** Of a stream that has failed by itself: whoever reads it is told so, and there is nothing left to let go of. */
function letGo(reader: ReadableStreamDefaultReader<Uint8Array>): void {
  reader.cancel().catch(() => {});
}
