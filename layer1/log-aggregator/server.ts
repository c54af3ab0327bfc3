/** The log aggregator over HTTP. */
import { setMaxListeners } from 'node:events';
import { FlynnError } from '@flynn/kit/errors';
import type { Handler } from '@flynn/kit/http-server';
import { handle } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { heartbeatMs } from '@flynn/kit/sse';
import { defaultLines, lineSchema, routes } from './api.ts';
import type { Line } from './api.ts';
import type { Drains } from './drains.ts';
import type { History } from './history.ts';
import { takeLines } from './ingest.ts';
import { readLines } from './reading.ts';

/** Each may hold a window, and the buffer it follows another: 64 MiB in all. */
const defaultMaxFollowers = 64;

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
  },
): Handler[] {
  const { log, signal, beatMs = heartbeatMs, maxFollowers = defaultMaxFollowers } = options;
  // One for each connection.
  setMaxListeners(0, signal);
  return [
    handle(routes.ingest, async ({ body, query, remoteAddress, signal: gone }) => {
      const stop = () => body.destroy(new FlynnError('unavailable', 'this log aggregator stops'));
      signal.addEventListener('abort', stop, { once: true });
      try {
        const ended = AbortSignal.any([signal, gone]);
        const { lines, refused, problem } = await takeLines(history, body, { mode: query.mode, signal: ended });
        options.onTaken?.({ lines, refused });
        if (refused > 0) log.warn({ remoteAddress, refused, problem }, 'lines of a host agent were refused');
        return { lines };
      } finally {
        signal.removeEventListener('abort', stop);
      }
    }),
    handle(routes.drains, async () => options.drains?.status ?? []),
    handle(routes.read, async ({ params, query, signal: gone }) => {
      const { follow = false, lines = defaultLines, streams, ...rest } = query;
      const filter = { ...rest, ...(streams === undefined ? {} : { streams: parseStreams(streams) }) };
      if (follow && history.followers >= maxFollowers) {
        throw new FlynnError('exhausted', `${maxFollowers} logs are being followed already: try again, or without -f`);
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
