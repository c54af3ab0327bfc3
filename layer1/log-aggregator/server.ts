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
import { KnownLogs } from './known-lines.ts';
import { readLines } from './reading.ts';

/** Each may hold a window, and the buffer it follows another: 64 MiB in all. */
const defaultMaxFollowers = 64;
/** Of these so many are for admins of the cluster, who look for what is wrong. */
const keptForAdmins = 8;

/** Of sendings that are compared with what is kept. After a restart every host begins with such ones, all at once. */
const comparedAtOnce = 2;
/**
 * Whose turn does not come within that is told so, well before it gives up by itself: who gave up is not seen as long as what it
 * sent is not read, and a turn would be spent on it.
 */
const defaultPatienceMs = 20_000;
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
    patienceMs?: number;
  },
): Handler[] {
  const {
    log,
    signal,
    beatMs = heartbeatMs,
    maxFollowers = defaultMaxFollowers,
    silenceMs = defaultSilenceMs,
    patienceMs = defaultPatienceMs,
  } = options;
  const known = new KnownLogs(history);
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
        const take = (from: AsyncIterable<Uint8Array>) => takeLines(history, from, { mode, known, signal: ended });
        // Nothing of a body is read before its turn: until then it is with who sends it.
        const compare = () => inTurn(turns, () => take(spoken(body, silenceMs)), { signal: ended, patienceMs });
        const { lines, refused, problem } = await (mode === 'fresh' ? take(body) : known.share(compare));
        options.onTaken?.({ lines, refused });
        if (refused > 0) log.warn({ remoteAddress, refused, problem }, 'lines of a host agent were refused');
        return { lines };
      } finally {
        signal.removeEventListener('abort', stop);
        // Of one that was refused unread the rest is passed over, so that its connection is of use again.
        body.destroy();
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
      return { body };
    }),
  ];
}

/** `exhausted` if its turn does not come in time: what was sent is as it was, and so is what is known of it here. */
async function inTurn<T>(
  turns: Slots,
  task: () => Promise<T>,
  { signal, patienceMs }: { signal: AbortSignal; patienceMs: number },
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), patienceMs);
  const run = async () => {
    clearTimeout(timer);
    if (signal.aborted) throw new FlynnError('cancelled', 'the agent went away, or this log aggregator stops');
    return task();
  };
  try {
    return await turns.run(run, { signal: AbortSignal.any([signal, late.signal]) });
  } catch (error) {
    if (!late.signal.aborted || signal.aborted) throw error;
    const why = `many hosts send again what they have, and no turn came within ${patienceMs / 1_000} s: send it again`;
    throw new FlynnError('exhausted', why);
  } finally {
    clearTimeout(timer);
  }
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
