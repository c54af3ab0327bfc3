/** The log aggregator over HTTP. */
import { setMaxListeners } from 'node:events';
import type { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import type { Handler } from '@flynn/kit/http-server';
import { handle } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { Slots } from '@flynn/kit/slots';
import { heartbeatMs } from '@flynn/kit/sse';
import { defaultLines, lineSchema, routes } from './api.ts';
import type { Line } from './api.ts';
import type { Drains } from './drains.ts';
import type { History } from './history.ts';
import { takeLines } from './ingest.ts';
import { readLines } from './reading.ts';

/** Each may hold a window, and the buffer it follows another: 64 MiB in all. */
const defaultMaxFollowers = 64;
/** Of these so many are for admins of the cluster, who look for what is wrong. */
const keptForAdmins = 8;

/**
 * Of sendings that are compared with what is kept: each holds what an app's log ends with. After a restart every host begins
 * with such ones, all at once.
 */
const comparedAtOnce = 2;
/** Who has its turn and sends nothing for so long is not waited for. */
const defaultSilenceMs = 10_000;

/** When the signal aborts, followers and agents are answered at once, so that they come back to another instance. */
export function logHandlers(
  history: History,
  options: {
    log: Logger;
    signal: AbortSignal;
    drains?: Pick<Drains, 'status'>;
    /** Told what became of the lines of each sending. */
    onTaken?: (taken: { lines: number; refused: number }) => void;
    beatMs?: number;
    maxFollowers?: number;
    silenceMs?: number;
  },
): Handler[] {
  const {
    log,
    signal,
    beatMs = heartbeatMs,
    maxFollowers = defaultMaxFollowers,
    silenceMs = defaultSilenceMs,
  } = options;
  const turns = new Slots(comparedAtOnce);
  // One for each connection.
  setMaxListeners(0, signal);
  return [
    handle(routes.ingest, async ({ body, query, remoteAddress, signal: gone }) => {
      const stop = () => body.destroy(new FlynnError('unavailable', 'this log aggregator stops'));
      signal.addEventListener('abort', stop, { once: true });
      try {
        const ended = AbortSignal.any([signal, gone]);
        const { mode } = query;
        // Nothing of a body is read before its turn: until then it is with who sends it.
        const { lines, refused, problem } =
          mode === 'fresh'
            ? await takeLines(history, body, { mode, signal: ended })
            : await turns.run(() => takeLines(history, spoken(body, silenceMs), { mode, signal: ended }), {
                signal: ended,
              });
        options.onTaken?.({ lines, refused });
        if (refused > 0) log.warn({ remoteAddress, refused, problem }, 'lines of a host agent were refused');
        return { lines };
      } finally {
        signal.removeEventListener('abort', stop);
      }
    }),
    handle(routes.drains, async () => options.drains?.status ?? []),
    handle(routes.read, async ({ params, query, signal: gone }) => {
      const { follow = false, lines = defaultLines, streams, isForAdmin = false, ...rest } = query;
      const filter = { ...rest, ...(streams === undefined ? {} : { streams: parseStreams(streams) }) };
      const places = isForAdmin ? maxFollowers : maxFollowers - keptForAdmins;
      if (follow && history.followers >= places) {
        throw new FlynnError('exhausted', `${places} logs are being followed already: try again, or without -f`);
      }
      // Of an app that has written nothing yet there may be somebody waiting for the first line.
      const found = follow ? await history.app(params.app) : history.find(params.app);
      const ended = AbortSignal.any([signal, gone]);
      const reading = { filter, lines, follow, signal: ended, now: Date.now, beatMs };
      const body = found === undefined ? nothing() : readLines(found, reading);
      return { body, headers: { 'content-type': 'application/x-ndjson' } };
    }),
  ];
}

/** What comes of it; it is broken off when nothing does. */
async function* spoken(body: Readable, silenceMs: number): AsyncGenerator<Uint8Array> {
  const waiting = () =>
    setTimeout(() => {
      const why = `nothing came for ${silenceMs / 1_000} s, and others wait: send it again`;
      body.destroy(new FlynnError('timeout', why));
    }, silenceMs);
  let timer = waiting();
  try {
    for await (const chunk of body) {
      clearTimeout(timer);
      yield chunk;
      timer = waiting();
    }
  } finally {
    clearTimeout(timer);
  }
}

async function* nothing(): AsyncGenerator<Buffer> {}

function parseStreams(text: string): ReadonlySet<Line['stream']> {
  const known = lineSchema.shape.stream.options;
  return new Set(
    text.split(',').map((name) => {
      const stream = known.find((each) => each === name);
      if (stream !== undefined) return stream;
      throw new FlynnError('invalid', `"${name}" is not a stream: there are ${known.join(', ')}`);
    }),
  );
}
