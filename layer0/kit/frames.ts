/**
 * The attach protocol, both ways on an upgraded connection: [1 byte kind][4 bytes payload length, big endian][payload].
 * Text payloads are UTF-8, `exit` and `error` carry JSON.
 */
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { type ErrorCode, FlynnError, isErrorCode } from './errors.ts';
import { nextChunk } from './silence.ts';

export type Frame =
  | { kind: 'stdin' | 'stdout' | 'stderr'; data: Buffer }
  | { kind: 'stdin-end' }
  | { kind: 'resize'; columns: number; rows: number }
  | { kind: 'signal'; signal: string }
  | { kind: 'exit'; code: number; error?: string }
  | { kind: 'error'; code: ErrorCode; message: string }
  | { kind: 'ping' };

const byteOfKind = {
  stdin: 0,
  stdout: 1,
  stderr: 2,
  'stdin-end': 3,
  resize: 4,
  signal: 5,
  exit: 6,
  error: 7,
  ping: 8,
} as const satisfies Record<Frame['kind'], number>;

const headerBytes = 5;

/** Of one frame's payload: 1 MiB. Longer output goes out as several frames. */
export const frameLimitBytes = 1024 * 1024;

const exitPayload = z.object({ code: z.int(), error: z.string().optional() });
const errorPayload = z.object({ code: z.custom<ErrorCode>(isErrorCode), message: z.string() });

/** A payload over the limit is `invalid`. */
export function encodeFrame(frame: Frame): Buffer {
  const payload = payloadOf(frame);
  if (payload.length > frameLimitBytes) throw tooLarge(payload.length);
  const header = Buffer.alloc(headerBytes);
  header.writeUInt8(byteOfKind[frame.kind], 0);
  header.writeUInt32BE(payload.length, 1);
  return Buffer.concat([header, payload]);
}

function payloadOf(frame: Frame): Buffer {
  switch (frame.kind) {
    case 'stdin':
    case 'stdout':
    case 'stderr':
      return frame.data;
    case 'resize': {
      const size = Buffer.alloc(4);
      size.writeUInt16BE(clampSize(frame.columns), 0);
      size.writeUInt16BE(clampSize(frame.rows), 2);
      return size;
    }
    case 'signal':
      return Buffer.from(frame.signal);
    case 'exit':
      return Buffer.from(JSON.stringify({ code: frame.code, error: frame.error }));
    case 'error':
      return Buffer.from(JSON.stringify({ code: frame.code, message: frame.message }));
    case 'stdin-end':
    case 'ping':
    default:
      return Buffer.alloc(0);
  }
}

function clampSize(cells: number): number {
  return Math.max(0, Math.min(0xffff, Math.trunc(cells)));
}

/** Of who sends pings: one is missing for so long only where the connection is dead. */
const silence = { what: 'the connection', silenceMs: 60_000, code: 'unavailable' } as const;

/**
 * The frames of a connection, until its end. A frame that is too large, unknown or malformed is `invalid`; a connection
 * that ends inside a frame is `unavailable`, and so is one that goes silent for a minute after a first ping. Stopping the
 * iteration leaves the socket open: its owner ends it.
 */
export async function* readFrames(socket: Readable): AsyncGenerator<Frame> {
  const chunks: AsyncIterator<Buffer> = socket.iterator({ destroyOnReturn: false });
  let pending = Buffer.alloc(0);
  let isPinged = false;
  try {
    for (;;) {
      const { done, value } = await (isPinged ? nextChunk(socket, chunks, silence) : chunks.next());
      if (done === true) break;
      pending = pending.length === 0 ? Buffer.from(value) : Buffer.concat([pending, value]);
      let offset = 0;
      while (pending.length - offset >= headerBytes) {
        const length = pending.readUInt32BE(offset + 1);
        if (length > frameLimitBytes) throw tooLarge(length);
        const end = offset + headerBytes + length;
        if (pending.length < end) break;
        const frame = decodeFrame(pending.readUInt8(offset), pending.subarray(offset + headerBytes, end));
        if (frame.kind === 'ping') isPinged = true;
        yield frame;
        offset = end;
      }
      pending = pending.subarray(offset);
    }
  } finally {
    await chunks.return?.();
  }
  if (pending.length > 0) throw new FlynnError('unavailable', 'the connection ended in the middle of a frame');
}

function decodeFrame(byte: number, payload: Buffer): Frame {
  switch (byte) {
    case byteOfKind.stdin:
      return { kind: 'stdin', data: payload };
    case byteOfKind.stdout:
      return { kind: 'stdout', data: payload };
    case byteOfKind.stderr:
      return { kind: 'stderr', data: payload };
    case byteOfKind['stdin-end']:
      return { kind: 'stdin-end' };
    case byteOfKind.resize:
      if (payload.length !== 4) throw new FlynnError('invalid', 'a resize frame is four bytes: columns and rows');
      return { kind: 'resize', columns: payload.readUInt16BE(0), rows: payload.readUInt16BE(2) };
    case byteOfKind.signal:
      return { kind: 'signal', signal: payload.toString() };
    case byteOfKind.exit: {
      const { code, error } = parsePayload(exitPayload, payload);
      return error === undefined ? { kind: 'exit', code } : { kind: 'exit', code, error };
    }
    case byteOfKind.error:
      return { kind: 'error', ...parsePayload(errorPayload, payload) };
    case byteOfKind.ping:
      return { kind: 'ping' };
    default:
      throw new FlynnError('invalid', `a frame of unknown kind ${byte} arrived: do both sides have the same version?`);
  }
}

function parsePayload<S extends z.ZodType>(schema: S, payload: Buffer): z.output<S> {
  try {
    return schema.parse(JSON.parse(payload.toString()));
  } catch (error) {
    throw new FlynnError('invalid', 'a frame with a malformed payload arrived', { cause: error });
  }
}

function tooLarge(bytes: number): FlynnError {
  return new FlynnError('invalid', `a frame of ${bytes} bytes is over the limit of ${frameLimitBytes}`);
}
