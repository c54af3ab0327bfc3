/** A program elsewhere whose input or output is a file here: as it comes, no faster than either side takes it. */
import { open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FlynnError, hasCode, hasErrno, messageOf } from '@flynn/kit/errors';
import { encodeFrame, frameLimitBytes, readFrames } from '@flynn/kit/frames';
import { shortId } from '@flynn/kit/ids';
import { writeTo } from './output.ts';

/** Of what a program complains: the end tells most. */
const mostComplaint = 4_096;
/** EX_TEMPFAIL of sysexits.h. */
const exitUnknown = 75;

/**
 * Its standard output, to the end. Throws what it complains of where it fails, as `timeout` where it does not know whether it has
 * done all, and `unavailable` where the connection ends before it has: what came until then is not all.
 */
export async function* outputOf(socket: Duplex): AsyncGenerator<Buffer, void, undefined> {
  let complaint = '';
  try {
    for await (const frame of readFrames(socket)) {
      if (frame.kind === 'stdout') yield frame.data;
      if (frame.kind === 'stderr') complaint = `${complaint}${frame.data.toString()}`.slice(-mostComplaint);
      if (frame.kind === 'error') throw new FlynnError(frame.code, frame.message);
      if (frame.kind !== 'exit') continue;
      if (frame.code === 0) return;
      // Where it is not known whether it was done, a program says so.
      const code = frame.code === exitUnknown ? 'timeout' : 'invalid';
      throw new FlynnError(code, frame.error ?? (complaint.trim() || `it ended with ${frame.code}`));
    }
  } catch (error) {
    if (error instanceof FlynnError && !hasCode(error, 'unavailable')) throw error;
    throw brokenOff(error);
  } finally {
    socket.destroy();
  }
  throw brokenOff();
}

function brokenOff(cause?: unknown): FlynnError {
  const why = cause === undefined ? '' : `: ${messageOf(cause)}`;
  return new FlynnError('unavailable', `the connection ended before all was through${why}`, { cause });
}

/** What it says once it has read all of `input`. Where it ends before, the rest is not sent. */
export async function answerTo(
  socket: Duplex,
  input: AsyncIterable<Uint8Array | string>,
  onSent: (bytes: number) => void,
): Promise<string> {
  const said: Buffer[] = [];
  const reading = (async () => {
    for await (const chunk of outputOf(socket)) said.push(chunk);
  })();
  try {
    await Promise.all([reading, sendAll(socket, input, onSent)]);
  } finally {
    // What is still waited for of the input is nobody's any more.
    socket.destroy();
  }
  return Buffer.concat(said).toString();
}

async function sendAll(
  socket: Duplex,
  input: AsyncIterable<Uint8Array | string>,
  onSent: (bytes: number) => void,
): Promise<void> {
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk);
    for (let at = 0; at < bytes.length; at += frameLimitBytes) {
      if (socket.destroyed) return;
      const data = bytes.subarray(at, at + frameLimitBytes);
      await writeTo(socket, encodeFrame({ kind: 'stdin', data }));
      onSent(data.length);
    }
  }
  if (!socket.destroyed) socket.write(encodeFrame({ kind: 'stdin-end' }));
}

/** Why a place cannot be written to, by no fault of the program. */
const unwritable = ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM', 'ENOSPC', 'EDQUOT', 'EISDIR', 'EROFS', 'ENAMETOOLONG'];

/**
 * What has the name is whole, and its owner's alone, whatever was there before; where that fails, nothing is left. Throws `invalid`
 * for a place that cannot be written to, before it asks for the content.
 */
export async function saveWhole(
  file: string,
  content: () => AsyncIterable<Uint8Array> | Promise<AsyncIterable<Uint8Array>>,
  limits: { signal: AbortSignal },
): Promise<void> {
  let partial: string | undefined;
  try {
    const place = await placeOf(file);
    partial = join(dirname(place), `.${basename(place)}.${shortId()}.part`);
    // It holds what apps keep.
    await using opened = await open(partial, 'wx', 0o600);
    await pipeline(await content(), opened.createWriteStream({ flush: true }), limits);
    await rename(partial, place);
  } catch (error) {
    limits.signal.throwIfAborted();
    throw placeFault(file, error);
  } finally {
    if (partial !== undefined) await rm(partial, { force: true });
  }
}

/** `invalid` naming the file, where it is the place's fault; else the error itself. */
export function placeFault(file: string, error: unknown): unknown {
  if (error instanceof FlynnError || !hasErrno(error, ...unwritable)) return error;
  return new FlynnError('invalid', `cannot write ${file}: ${messageOf(error)}`, { cause: error });
}

/** A link stays one, and what it leads to is replaced; a device or a pipe must never be, least of all by root. */
export async function placeOf(file: string): Promise<string> {
  try {
    const place = await realpath(file);
    if ((await stat(place)).isFile()) return place;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return file;
    throw error;
  }
  throw new FlynnError('invalid', `cannot write ${file}: what is there is no file; name another`);
}
