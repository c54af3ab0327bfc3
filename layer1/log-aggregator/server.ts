/** The log aggregator over HTTP. */
import type { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import type { Handler } from '@flynn/kit/http-server';
import { handle } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { heartbeatMs } from '@flynn/kit/sse';
import { lineSchema, routes } from './api.ts';
import type { LogBuffers } from './buffers.ts';
import { parseLines } from './ingest.ts';
import type { LineReader } from './reader.ts';

/** When the signal aborts, followers and agents are answered at once, so that they come back to another instance. */
export function logHandlers(
  buffers: LogBuffers,
  options: { log: Logger; signal: AbortSignal; beatMs?: number },
): Handler[] {
  const { log, signal, beatMs = heartbeatMs } = options;
  return [
    handle(routes.ingest, async ({ body, remoteAddress }) => {
      let lines = 0;
      let refused = 0;
      for await (const parsed of endedBy(body, signal)) {
        if ('problem' in parsed) {
          // One line of log for each bad line could be endless.
          if (refused === 0) log.warn({ remoteAddress, problem: parsed.problem }, 'a line was refused');
          refused += 1;
        } else if (buffers.add(parsed.app, parsed.line)) lines += 1;
      }
      if (refused > 0) log.warn({ remoteAddress, refused }, 'lines of a host agent were refused');
      return { lines };
    }),
    handle(routes.read, async (call) => {
      const { follow = false, lines, jobId, processType, streams } = call.query;
      const filter = { jobId, processType, streams: streams === undefined ? undefined : parseStreams(streams) };
      const reader = buffers.open(call.params.app, { filter, lines, follow });
      const close = () => buffers.close(call.params.app, reader);
      const ended = AbortSignal.any([signal, call.signal]);
      if (ended.aborted) close();
      else ended.addEventListener('abort', close, { once: true });
      return { body: encode(reader, { close, beatMs }), headers: { 'content-type': 'application/x-ndjson' } };
    }),
  ];
}

async function* endedBy(body: Readable, signal: AbortSignal) {
  const stop = () => body.destroy();
  signal.addEventListener('abort', stop, { once: true });
  try {
    yield* parseLines(body);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function parseStreams(text: string): ReadonlySet<string> {
  const known = lineSchema.shape.stream.options;
  const names = text.split(',');
  const unknown = names.find((name) => !known.some((stream) => stream === name));
  if (unknown === undefined) return new Set(names);
  throw new FlynnError('invalid', `"${unknown}" is not a stream: there are ${known.join(', ')}`);
}

const chunkLines = 200;

/** An empty line now and then: the router, and others on the way, close what is silent. */
async function* encode(reader: LineReader, options: { close: () => void; beatMs: number }): AsyncGenerator<Buffer> {
  const beat = setInterval(() => reader.nudge(), options.beatMs);
  try {
    for await (const batch of reader.batches()) {
      if (batch.length === 0) yield Buffer.from('\n');
      for (let at = 0; at < batch.length; at += chunkLines) {
        const text = batch.slice(at, at + chunkLines).map((line) => `${JSON.stringify(line)}\n`);
        yield Buffer.from(text.join(''));
      }
    }
  } finally {
    clearInterval(beat);
    options.close();
  }
}
