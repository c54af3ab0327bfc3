/**
 * Programs beside a member of a datastore, over its host's agent: one whose output is read, one that is given input. Both end with
 * the connection: a program outlives nobody who stopped reading or writing.
 *
 * ERRORS. `internal` with its last words where the program ended with another code than 0; `unavailable` where the connection
 * broke, ended without a code, or brought nothing, not even the agent's ping, for a minute: the host is gone. Whatever ends
 * early is an error: only what is whole ends well. Of a program that was given all of its input, and whose end nobody heard, it is
 * not known what it did: see isEndUnknown.
 */
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { abortError } from '@flynn/kit/clock';
import { FlynnError, asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { encodeFrame, frameLimitBytes, readFrames } from '@flynn/kit/frames';
import type { Frame } from '@flynn/kit/frames';
import type { Bytes } from '../backup/archive.ts';
import type { HostClients } from '../hosts/clients.ts';

export type Member = Readonly<{ hostId: string; jobId: string }>;
type Options = Readonly<{
  signal: AbortSignal;
  /** Default: a minute. Agents ping four times as often. */
  silenceMs?: number;
  /** Called with whatever the program says beside its output: it is at work. */
  onWords?: () => void;
}>;

const usualSilenceMs = 60_000;
const lastWordsBytes = 2_048;
/** Of a program that a signal ended, whatever it was about to do, the code is larger. */
const mostOwnCode = 128;
/** A program that does not know itself what it did (EX_TEMPFAIL of sysexits.h). */
const unknownCode = 75;

/** What the program writes, as fast as it is taken. It is whole when this ends without an error. */
export async function* outputOf(
  hosts: Pick<HostClients, 'exec'>,
  member: Member,
  command: readonly string[],
  { signal, silenceMs = usualSilenceMs, onWords }: Options,
): AsyncGenerator<Buffer> {
  using program = await begin(hosts, member, command, signal);
  const { socket } = program;
  socket.write(encodeFrame({ kind: 'stdin-end' }));
  yield* untilExit(framesOf(socket, silenceMs), command, onWords);
}

/** Resolves once the program has read all of it and ended with 0. Input that fails ends the program before its end is told. */
export async function feed(
  hosts: Pick<HostClients, 'exec'>,
  member: Member,
  command: readonly string[],
  input: Bytes,
  { signal, silenceMs = usualSilenceMs }: Options,
): Promise<void> {
  using program = await begin(hosts, member, command, signal);
  const { socket } = program;
  const failed: unknown[] = [];
  const sent = { isWhole: false };
  const sending = async (): Promise<boolean> => {
    try {
      await pipeline(Readable.from(inputFrames(input, { failed, sent })), socket, { end: false });
      return true;
    } catch (error) {
      // One that is not to be ended is not destroyed by it, either: the program would wait for the rest.
      socket.destroy();
      throw error;
    }
  };
  const reading = async (): Promise<void> => {
    try {
      for await (const _ of untilExit(framesOf(socket, silenceMs), command));
    } finally {
      socket.destroy();
    }
  };
  const [sender, reader] = await Promise.allSettled([sending(), reading()]);
  const cut = signal.aborted ? abortError(signal) : undefined;
  const error: unknown = cut ?? (reader.status === 'rejected' ? reader.reason : undefined);
  if (sent.isWhole && error !== undefined && !hasEnded(error)) throw endUnknown(asFlynnError(error));
  if (cut !== undefined) throw cut;
  // That is why the program ended.
  if (failed.length > 0) throw failed[0];
  if (error !== undefined) throw error;
  if (sender.status === 'rejected')
    throw new FlynnError('internal', `${nameOf(command)} ended before it had read all of the backup`);
}

/** It may have done all that it was to do. */
export function isEndUnknown(error: unknown): boolean {
  return error instanceof FlynnError && error.detail['isEndUnknown'] === true;
}

function endUnknown(cause: FlynnError): FlynnError {
  return new FlynnError(cause.code, cause.message, { cause, detail: { isEndUnknown: true } });
}

/** By itself, or it never began. */
function hasEnded(error: unknown): boolean {
  if (error instanceof FlynnError && error.detail['hasEnded'] === true) return true;
  return !hasCode(error, 'unavailable', 'timeout', 'internal', 'cancelled');
}

async function begin(
  hosts: Pick<HostClients, 'exec'>,
  { hostId, jobId }: Member,
  command: readonly string[],
  signal: AbortSignal,
): Promise<Disposable & { socket: Duplex }> {
  const socket = await hosts.exec(hostId, jobId, { command }, signal);
  const onAbort = (): void => void socket.destroy(abortError(signal));
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    socket,
    [Symbol.dispose]() {
      signal.removeEventListener('abort', onAbort);
      socket.destroy();
    },
  };
}

/** The time that whoever takes them takes is none of the other end's. */
async function* framesOf(socket: Duplex, silenceMs: number): AsyncGenerator<Frame> {
  const frames = readFrames(socket);
  const silent = new FlynnError('unavailable', `its host said nothing for ${silenceMs / 1_000} s`);
  for (;;) {
    const timer = setTimeout(() => socket.destroy(silent), silenceMs);
    let next: IteratorResult<Frame>;
    try {
      next = await frames.next();
    } finally {
      clearTimeout(timer);
    }
    if (next.done === true) return;
    yield next.value;
  }
}

async function* untilExit(
  frames: AsyncIterable<Frame>,
  command: readonly string[],
  onWords?: () => void,
): AsyncGenerator<Buffer> {
  let lastWords = Buffer.alloc(0);
  for await (const frame of unbroken(frames, command)) {
    if (frame.kind === 'stdout') yield frame.data;
    if (frame.kind === 'stderr') onWords?.();
    if (frame.kind === 'stderr') lastWords = Buffer.concat([lastWords, frame.data]).subarray(-lastWordsBytes);
    if (frame.kind === 'error') throw new FlynnError(frame.code, `${nameOf(command)}: ${frame.message}`);
    if (frame.kind !== 'exit') continue;
    if (frame.code === 0) return;
    const words = lastWords.toString().trim() || frame.error || 'it said nothing';
    const detail = { hasEnded: frame.code <= mostOwnCode && frame.code !== unknownCode };
    throw new FlynnError('internal', `${nameOf(command)} ended with ${frame.code}: ${words}`, { detail });
  }
  throw new FlynnError('unavailable', `the connection to ${nameOf(command)} broke before it had ended`);
}

async function* unbroken(frames: AsyncIterable<Frame>, command: readonly string[]): AsyncGenerator<Frame> {
  try {
    yield* frames;
  } catch (error) {
    if (error instanceof FlynnError) throw error;
    const message = `the connection to ${nameOf(command)} broke before it had ended: ${messageOf(error)}`;
    throw new FlynnError('unavailable', message, { cause: error });
  }
}

async function* inputFrames(
  input: Bytes,
  { failed, sent }: Readonly<{ failed: unknown[]; sent: { isWhole: boolean } }>,
): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of input) {
      for (let at = 0; at < chunk.length; at += frameLimitBytes) {
        yield encodeFrame({ kind: 'stdin', data: Buffer.from(chunk.subarray(at, at + frameLimitBytes)) });
      }
    }
  } catch (error) {
    failed.push(error);
    throw error;
  }
  sent.isWhole = true;
  yield encodeFrame({ kind: 'stdin-end' });
}

/** What it is to do, `dump`, where its first word says so; its program's name else. */
function nameOf([program = 'the program', task = '']: readonly string[]): string {
  return /^[a-z][a-z-]*$/.test(task) ? task : basename(program);
}
