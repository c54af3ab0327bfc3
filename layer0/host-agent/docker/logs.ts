/** Logs of Docker's json-file driver: frames, times, lines. */
import { type FileHandle, open } from 'node:fs/promises';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import type { CallOptions, LogOptions, LogRecord, OutputChunk } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall, engineError } from './errors.ts';
import { formatSeconds, parseTimestamp } from '../logs/timestamp.ts';

/** One frame: [1 byte stream][3 bytes zero][4 bytes length][payload]. The engine writes one log record per frame. */
export async function* demux(chunks: AsyncIterable<Buffer>): AsyncGenerator<OutputChunk> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 8) {
      const end = 8 + rest.readUInt32BE(4);
      if (rest.length < end) break;
      yield { stream: rest.readUInt8(0) === 2 ? 'stderr' : 'stdout', data: rest.subarray(8, end) };
      rest = rest.subarray(end);
    }
  }
}

/** A terminal has one stream and no frames. */
export async function* undivided(chunks: AsyncIterable<Buffer>): AsyncGenerator<OutputChunk> {
  for await (const data of chunks) yield { stream: 'stdout', data };
}

export function recordOf({ stream, data }: OutputChunk): LogRecord {
  const space = data.indexOf(0x20);
  const isPartial = data.at(-1) !== 0x0a;
  return {
    stream,
    timestampNs: parseTimestamp(data.toString('latin1', 0, space)),
    message: data.toString('utf8', space + 1, isPartial ? data.length : data.length - 1),
    isPartial,
  };
}

/** More of a terminal's line is not kept: what draws a screen may never end one. */
const maxUnendedBytes = 64 * 1024;

/** A terminal's log has no frames either: records end at line ends, and parts of one line repeat its time. */
export async function* terminalRecords(chunks: AsyncIterable<Buffer>): AsyncGenerator<LogRecord> {
  let rest: Buffer = Buffer.alloc(0);
  /** The line's time and what separates it from the text; known once the line has begun. */
  let prefix: string | undefined;
  const recordOfLine = (line: string, start: string, isPartial: boolean): LogRecord => {
    const message = Buffer.from(line, 'latin1').toString('utf8');
    return { stream: 'stdout', timestampNs: parseTimestamp(start.slice(0, -1)), message, isPartial };
  };
  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
      const line = rest.toString('latin1', 0, end);
      rest = rest.subarray(end + 1);
      prefix ??= line.slice(0, line.indexOf(' ') + 1);
      yield recordOfLine(line.split(prefix).join('').replace(/\r$/, ''), prefix, false);
      prefix = undefined;
    }
    if (rest.length <= maxUnendedBytes) continue;
    const line = rest.toString('latin1');
    prefix ??= line.slice(0, line.indexOf(' ') + 1);
    const text = Buffer.from(line.split(prefix).join(''), 'latin1');
    // The end may be the beginning of the next part's time, or of a character.
    let cut = text.length - prefix.length;
    while (cut > 0 && ((text[cut] ?? 0) & 0xc0) === 0x80) cut -= 1;
    yield recordOfLine(text.toString('latin1', 0, cut), prefix, true);
    rest = text.subarray(cut);
  }
}

export async function* readLogs(
  context: DockerContext,
  id: string,
  tty: boolean,
  options: LogOptions,
): AsyncGenerator<LogRecord> {
  const { signal } = options;
  const ending = new AbortController();
  const until = signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal]);
  try {
    const chunks = await openLog(context, id, options, until);
    if (tty) yield* terminalRecords(chunks);
    else for await (const chunk of demux(chunks)) yield recordOf(chunk);
  } catch (error) {
    if (signal?.aborted !== true) throw engineError(error, `reading the log of ${id}`);
  } finally {
    ending.abort();
  }
}

/** `follow: false` is streamed too: a log of 20 MB does not belong into one buffer. */
async function openLog(
  { docker }: DockerContext,
  id: string,
  options: LogOptions,
  until: AbortSignal,
): Promise<AsyncIterable<Buffer>> {
  const query = new URLSearchParams({
    stdout: '1',
    stderr: '1',
    timestamps: '1',
    follow: options.follow ? '1' : '0',
    tail: options.tail === undefined ? 'all' : String(options.tail),
    ...(options.sinceNs === undefined ? {} : { since: formatSeconds(options.sinceNs) }),
  });
  const path = `/containers/${id}/logs?${query.toString()}&`;
  return engineCall(
    `reading the log of ${id}`,
    (signal) => dialStream(docker, { path, method: 'GET', signal, until }),
    options,
  );
}

async function dialStream(
  docker: DockerContext['docker'],
  request: { path: string; method: string; signal: AbortSignal; until: AbortSignal },
): Promise<AsyncIterable<Buffer>> {
  const opened = Promise.withResolvers<NodeJS.ReadableStream>();
  docker.modem.dial(
    {
      path: request.path,
      method: request.method,
      // The deadline is for the head only; the body goes on for as long as the reader wants.
      abortSignal: request.until,
      isStream: true,
      statusCodes: { 200: true, 404: 'no such container', 500: 'server error' },
    },
    (error: unknown, stream: unknown) => {
      if (error !== null && error !== undefined) opened.reject(error);
      else opened.resolve(stream as NodeJS.ReadableStream);
    },
  );
  const onDeadline = () => opened.reject(new FlynnError('timeout', 'the container engine took too long to answer'));
  request.signal.addEventListener('abort', onDeadline, { once: true });
  try {
    return (await opened.promise) as NodeJS.ReadableStream & AsyncIterable<Buffer>;
  } finally {
    request.signal.removeEventListener('abort', onDeadline);
  }
}

const tailBytes = 64 * 1024;

/**
 * Before a container that has run is started again. A power cut leaves logs that end in the midst of a record, or in zeros:
 * what the engine writes behind that it never reads again. Such an end is cut off.
 */
export async function mendLog({ docker }: DockerContext, id: string, options: CallOptions): Promise<void> {
  const { LogPath: path, State: state } = await engineCall(
    `looking at container ${id}`,
    (abortSignal) => docker.getContainer(id).inspect({ abortSignal }),
    options,
  );
  if (path === '' || state.Running) return;
  try {
    await using file = await open(path, 'r+');
    const { size } = await file.stat();
    const end = await endOfLastLine(file, size);
    if (end < size) await file.truncate(end);
  } catch (error) {
    // It never ran, or its engine's files are not to be seen or changed from here. No log keeps a job from starting.
    if (!hasErrno(error, 'ENOENT', 'EACCES', 'EPERM', 'EROFS', 'EIO')) throw error;
  }
}

async function endOfLastLine(file: FileHandle, size: number): Promise<number> {
  const tail = Buffer.alloc(Math.min(size, tailBytes));
  for (let from = size; from > 0;) {
    const length = Math.min(from, tail.length);
    from -= length;
    await file.read(tail, 0, length, from);
    const at = tail.subarray(0, length).lastIndexOf(0x0a);
    if (at >= 0) return from + at + 1;
  }
  return 0;
}
